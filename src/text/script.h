/* script.h - the writing system of a character and of a piece of text.
 *
 * Only the scripts of ft_script are told apart; everything else that is a letter is FT_SCRIPT_OTHER.
 */
#ifndef TEXT_SCRIPT_H
#define TEXT_SCRIPT_H

#include <foretoken/foretoken.h>

#include "base/compiler.h"

/* Of one code point: a listed script by Unicode's Script property; else FT_SCRIPT_DIGIT for numbers,
 * FT_SCRIPT_PUNCT for punctuation, spaces, controls and the signs of mathematics and money,
 * FT_SCRIPT_OTHER for other letters, marks, symbols and what is no character. */
ft_script text_script_of(uint32_t codepoint);

/* Of a piece of text, any bytes: that of its first letter or mark. Without one: FT_SCRIPT_DIGIT if it
 * has a digit, else FT_SCRIPT_PART if it has bytes that are no whole character, else FT_SCRIPT_OTHER
 * if it has another symbol or n is 0, else FT_SCRIPT_PUNCT. */
ft_script text_script_of_piece(const uint8_t *s, size_t n);

#endif

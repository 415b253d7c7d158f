/* script.c - see script.h.
 *
 * The ranges follow Unicode's Scripts.txt. One range may bridge code points that are not assigned,
 * and takes whole blocks that are kept for a script, so that the table stays right for characters
 * that later versions of Unicode add there.
 */
#include "text/script.h"

#include <utf8proc.h>

#include "text/text.h"
#include "text/utf8.h"

typedef struct {
    uint32_t first, last;
    ft_script script;
} script_range;

// clang-format off
#define LATN FT_SCRIPT_LATIN
#define CYRL FT_SCRIPT_CYRILLIC
#define GREK FT_SCRIPT_GREEK
#define ARAB FT_SCRIPT_ARABIC
#define HEBR FT_SCRIPT_HEBREW
#define DEVA FT_SCRIPT_DEVANAGARI
#define THAI FT_SCRIPT_THAI
#define HANI FT_SCRIPT_HAN
#define KANA FT_SCRIPT_KANA
#define HANG FT_SCRIPT_HANGUL
/* Ascending, no two overlap. */
static const script_range range[] = {
    {0x0041, 0x005A, LATN}, {0x0061, 0x007A, LATN}, {0x00AA, 0x00AA, LATN}, {0x00BA, 0x00BA, LATN},
    {0x00C0, 0x00D6, LATN}, {0x00D8, 0x00F6, LATN}, {0x00F8, 0x02B8, LATN}, {0x02E0, 0x02E4, LATN},
    {0x0370, 0x0373, GREK}, {0x0375, 0x037D, GREK}, {0x037F, 0x0384, GREK}, {0x0386, 0x0386, GREK},
    {0x0388, 0x03E1, GREK}, {0x03F0, 0x03FF, GREK}, {0x0400, 0x0484, CYRL}, {0x0487, 0x052F, CYRL},
    {0x0591, 0x05F4, HEBR}, {0x0600, 0x0604, ARAB}, {0x0606, 0x060B, ARAB}, {0x060D, 0x061A, ARAB},
    {0x061C, 0x061E, ARAB}, {0x0620, 0x063F, ARAB}, {0x0641, 0x064A, ARAB}, {0x0656, 0x066F, ARAB},
    {0x0671, 0x06DC, ARAB}, {0x06DE, 0x06FF, ARAB}, {0x0750, 0x077F, ARAB}, {0x0870, 0x08E1, ARAB},
    {0x08E3, 0x08FF, ARAB}, {0x0900, 0x0950, DEVA}, {0x0955, 0x0963, DEVA}, {0x0966, 0x097F, DEVA},
    {0x0E01, 0x0E3A, THAI}, {0x0E40, 0x0E5B, THAI}, {0x1100, 0x11FF, HANG}, {0x1C80, 0x1C8F, CYRL},
    {0x1D00, 0x1D25, LATN}, {0x1D26, 0x1D2A, GREK}, {0x1D2B, 0x1D2B, CYRL}, {0x1D2C, 0x1D5C, LATN},
    {0x1D5D, 0x1D61, GREK}, {0x1D62, 0x1D65, LATN}, {0x1D66, 0x1D6A, GREK}, {0x1D6B, 0x1D77, LATN},
    {0x1D78, 0x1D78, CYRL}, {0x1D79, 0x1DBE, LATN}, {0x1DBF, 0x1DBF, GREK}, {0x1E00, 0x1EFF, LATN},
    {0x1F00, 0x1FFE, GREK}, {0x2071, 0x2071, LATN}, {0x207F, 0x207F, LATN}, {0x2090, 0x209C, LATN},
    {0x2126, 0x2126, GREK}, {0x212A, 0x212B, LATN}, {0x2132, 0x2132, LATN}, {0x214E, 0x214E, LATN},
    {0x2160, 0x2188, LATN}, {0x2C60, 0x2C7F, LATN}, {0x2DE0, 0x2DFF, CYRL}, {0x2E80, 0x2FD5, HANI},
    {0x3005, 0x3005, HANI}, {0x3007, 0x3007, HANI}, {0x3021, 0x3029, HANI}, {0x302E, 0x302F, HANG},
    {0x3038, 0x303B, HANI}, {0x3041, 0x3096, KANA}, {0x309D, 0x309F, KANA}, {0x30A1, 0x30FA, KANA},
    {0x30FD, 0x30FF, KANA}, {0x3131, 0x318E, HANG}, {0x31F0, 0x31FF, KANA}, {0x3200, 0x321E, HANG},
    {0x3260, 0x327E, HANG}, {0x32D0, 0x32FE, KANA}, {0x3300, 0x3357, KANA}, {0x3400, 0x4DBF, HANI},
    {0x4E00, 0x9FFF, HANI}, {0xA640, 0xA69F, CYRL}, {0xA722, 0xA787, LATN}, {0xA78B, 0xA7FF, LATN},
    {0xA8E0, 0xA8FF, DEVA}, {0xA960, 0xA97C, HANG}, {0xAB30, 0xAB5A, LATN}, {0xAB5C, 0xAB64, LATN},
    {0xAB65, 0xAB65, GREK}, {0xAB66, 0xAB69, LATN}, {0xAC00, 0xD7FB, HANG}, {0xF900, 0xFAD9, HANI},
    {0xFB00, 0xFB06, LATN}, {0xFB1D, 0xFB4F, HEBR}, {0xFB50, 0xFD3D, ARAB}, {0xFD40, 0xFDFF, ARAB},
    {0xFE2E, 0xFE2F, CYRL}, {0xFE70, 0xFEFC, ARAB}, {0xFF21, 0xFF3A, LATN}, {0xFF41, 0xFF5A, LATN},
    {0xFF66, 0xFF6F, KANA}, {0xFF71, 0xFF9D, KANA}, {0xFFA0, 0xFFDC, HANG},
    {0x10140, 0x1018E, GREK}, {0x101A0, 0x101A0, GREK}, {0x10780, 0x107BA, LATN},
    {0x10E60, 0x10E7E, ARAB}, {0x10EC0, 0x10EFF, ARAB}, {0x11B00, 0x11B5F, DEVA},
    {0x16FE2, 0x16FE3, HANI}, {0x16FF0, 0x16FF1, HANI}, {0x1AFF0, 0x1B167, KANA},
    {0x1D200, 0x1D245, GREK}, {0x1DF00, 0x1DFFF, LATN}, {0x1E030, 0x1E08F, CYRL},
    {0x1EE00, 0x1EEF1, ARAB}, {0x1F200, 0x1F200, KANA}, {0x20000, 0x3FFFF, HANI},
};
#undef LATN
#undef CYRL
#undef GREK
#undef ARAB
#undef HEBR
#undef DEVA
#undef THAI
#undef HANI
#undef KANA
#undef HANG
// clang-format on

/* What a character of no listed script is, by its category: Cn for what is past U+10FFFF. */
static ft_script by_category(uint32_t codepoint)
{
    const char *name = utf8proc_category_string((utf8proc_int32_t)codepoint);
    switch (name[0]) {
    case 'N':
        return FT_SCRIPT_DIGIT;
    case 'P':
    case 'Z':
        return FT_SCRIPT_PUNCT;
    case 'C': /* controls and format characters; Co, Cs and Cn are nobody's */
        return name[1] == 'c' || name[1] == 'f' ? FT_SCRIPT_PUNCT : FT_SCRIPT_OTHER;
    case 'S': /* So: emoji and the like */
        return name[1] == 'o' ? FT_SCRIPT_OTHER : FT_SCRIPT_PUNCT;
    default:
        return FT_SCRIPT_OTHER;
    }
}

ft_script text_script_of(uint32_t codepoint)
{
    size_t lo = 0, hi = ARRAY_LEN(range);
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (codepoint > range[mid].last)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo < ARRAY_LEN(range) && codepoint >= range[lo].first)
        return range[lo].script;
    return by_category(codepoint);
}

/* Letters and marks decide what a piece is; numbers of a listed script count as its letters. */
static bool is_letter(uint32_t codepoint, ft_script script)
{
    if (script != FT_SCRIPT_OTHER)
        return script != FT_SCRIPT_DIGIT && script != FT_SCRIPT_PUNCT;
    char kind = utf8proc_category_string((utf8proc_int32_t)codepoint)[0];
    return kind == 'L' || kind == 'M';
}

ft_script text_script_of_piece(const uint8_t *s, size_t n)
{
    bool digit = false, symbol = false, part = false;
    for (size_t pos = 0, len; pos < n; pos += len) {
        if (utf8_scan(s + pos, n - pos, &len) != UTF8_CHAR) {
            part = true;
            continue;
        }
        utf8proc_int32_t c;
        utf8proc_iterate(s + pos, (utf8proc_ssize_t)len, &c);
        ft_script script = text_script_of((uint32_t)c);
        if (is_letter((uint32_t)c, script))
            return script;
        digit |= script == FT_SCRIPT_DIGIT;
        symbol |= script == FT_SCRIPT_OTHER;
    }
    return digit              ? FT_SCRIPT_DIGIT
           : part             ? FT_SCRIPT_PART
           : symbol || n == 0 ? FT_SCRIPT_OTHER
                              : FT_SCRIPT_PUNCT;
}

const char *ft_script_name(ft_script s)
{
    static const char *const name[] = {
#define SCRIPT_NAME(e, text) text,
        FT_SCRIPT_LIST(SCRIPT_NAME)
#undef SCRIPT_NAME
    };
    return (unsigned)s < FT_N_SCRIPT ? name[s] : "unknown";
}

ft_script tok_script(const tokenizer *t, int32_t id)
{
    if (tok_is_special(t, id))
        return FT_SCRIPT_SPECIAL;
    size_t len;
    const char *s = tok_bytes(t, id, false, &len);
    return text_script_of_piece((const uint8_t *)s, len);
}

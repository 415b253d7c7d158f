/* convert.h - files made from files: a Hugging Face folder to GGUF, GGUF to GGUF in other types.
 *
 * Both stream tensor by tensor, report progress, write to a temporary file and rename it.
 */
#ifndef CONVERT_CONVERT_H
#define CONVERT_CONVERT_H

#include <foretoken/foretoken.h>

#include "base/compiler.h"

/* convert_folder and quantize_file implement ft_convert and ft_quantize of foretoken.h: the
 * contracts stand there.
 *
 * Progress: `what` is the tensor's name. convert_folder also reports, before the first tensor (done
 * 0), what the folder lacks and the file will not have: a sentence, which no tensor's name is. */
ft_status convert_folder(const ft_convert_params *p, ft_error *err) MUST_CHECK;
ft_status quantize_file(const ft_quantize_params *p, ft_error *err) MUST_CHECK;

#endif

/* api.c - the public face of this room: ft_convert and ft_quantize of foretoken.h. */
#include "base/err.h"
#include "convert/convert.h"

ft_status ft_convert(const ft_convert_params *p, ft_error *err)
{
    return p ? convert_folder(p, err) : err_set(err, FT_ARG, "convert: no parameters");
}

ft_status ft_quantize(const ft_quantize_params *p, ft_error *err)
{
    return p ? quantize_file(p, err) : err_set(err, FT_ARG, "quantize: no parameters");
}

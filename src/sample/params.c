/* params.c - the parameters' defaults and ranges. */
#include "sample/sample.h"

#define TEMP_MAX 100.0f

sample_params sample_params_default(void)
{
    return (sample_params){.temp = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.05f, .seed = 0};
}

/* Written so that NaN fails. */
static ft_status check_range(const char *name, float x, float max, const char *note, ft_error *err)
{
    if (x >= 0.0f && x <= max)
        return FT_OK;
    return err_set(err, FT_ARG, "sample: %s is %g, want 0 to %g (%s)", name, (double)x, (double)max,
                   note);
}

ft_status sample_params_check(const sample_params *p, ft_error *err)
{
    TRY(check_range("temp", p->temp, TEMP_MAX, "0: the most probable token", err));
    TRY(check_range("top_p", p->top_p, 1.0f, "1: off", err));
    TRY(check_range("min_p", p->min_p, 1.0f, "0: off", err));
    if (p->top_k < 0)
        return err_set(err, FT_ARG, "sample: top_k is %d, want 0 or more (0: off)", p->top_k);
    return FT_OK;
}

/* status.c - the texts of the statuses (foretoken.h). */
#include <foretoken/foretoken.h>

const char *ft_status_text(ft_status st)
{
    switch (st) {
#define FT_STATUS_TEXT(name, value, text) \
    case FT_##name:                       \
        return text;
        FT_STATUS_LIST(FT_STATUS_TEXT)
#undef FT_STATUS_TEXT
    }
    return "unknown status";
}

/* slowdown.h - how much more time a test with a time limit gets in this build. A build for an
 * emulator says so itself, by -DTEST_SLOWDOWN=. */
#ifndef TESTS_SUPPORT_SLOWDOWN_H
#define TESTS_SUPPORT_SLOWDOWN_H

#ifndef TEST_SLOWDOWN
#    if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#        define TEST_SLOWDOWN 10.0
#    elif defined(__has_feature)
#        if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
            __has_feature(memory_sanitizer)
#            define TEST_SLOWDOWN 10.0
#        endif
#    endif
#endif
#ifndef TEST_SLOWDOWN
#    define TEST_SLOWDOWN 1.0
#endif

#endif

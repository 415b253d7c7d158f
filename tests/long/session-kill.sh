#!/bin/bash
# session-kill.sh - kill -9 at KILLS (200) random moments of a save: the file is then the old one or the new
# one, whole; and temporaries do not pile up.
. tests/cli/common.bash

KILLS=${KILLS:-200}
m=$tmp/m.gguf
dir=$tmp/sessions
mkdir "$dir"
model qwen35 "$m"
perl -e 'print "the hen in the thing and then " x 20' >"$tmp/prompt"
perl -e 'print "another text that is a little longer: " x 20' >"$tmp/prompt2"
good session save -m "$m" -f "$tmp/prompt" -o "$dir/a" -q -t 1
old=$(cksum <"$dir/a")
start=$(date +%s%N)
good session save -m "$m" -f "$tmp/prompt2" -o "$dir/b" -q -t 1
took=$((($(date +%s%N) - start) / 1000))
new=$(cksum <"$dir/b")
rm "$dir/b"
cp "$dir/a" "$tmp/old"

n_old=0 n_new=0 n_part=0 most=0
for ((i = 0; i < KILLS; i++)); do
    cp "$tmp/old" "$dir/a"
    "$FORETOKEN" session save -m "$m" -f "$tmp/prompt2" -o "$dir/a" -q -t 1 2>/dev/null &
    pid=$!
    if ((i % 2)); then # until the temporary is there, then a moment of writing
        for ((k = 0; k < 400 && i % 2; k++)); do
            [ -e "$dir/a.part-0" ] && break
            kill -0 $pid 2>/dev/null || break
            sleep 0.002
        done
        sleep "$(awk -v r=$RANDOM 'BEGIN { printf "%.4f", r / 32768 * 0.01 }')"
    else
        sleep "$(awk -v r=$RANDOM -v us=$took 'BEGIN { printf "%.4f", r / 32768 * us * 1.2e-6 }')"
    fi
    kill -9 $pid 2>/dev/null
    wait $pid 2>/dev/null
    case $(cksum <"$dir/a") in
    "$old") n_old=$((n_old + 1)) ;;
    "$new") n_new=$((n_new + 1)) ;;
    *) fail "kill $i: neither the old file nor the new one" ;;
    esac
    good session info "$dir/a"
    parts=$(find "$dir" -name 'a.part-*' | wc -l)
    [ "$parts" -eq 0 ] || n_part=$((n_part + 1))
    [ "$parts" -le "$most" ] || most=$parts
done
[ "$most" -le 1 ] || fail "$most temporaries at a time"
[ $n_old -gt 0 ] || fail "no kill came before the rename"
good session load -m "$m" "$dir/a" -n 1
good session save -m "$m" -f "$tmp/prompt2" -o "$dir/a" -q # removes what the last kill left
[ "$(find "$dir" -type f | wc -l)" -eq 1 ] || fail "a temporary stays: $(ls "$dir")"
echo "$KILLS kills: $n_old old, $n_new new files; a temporary was left $n_part times"
finish

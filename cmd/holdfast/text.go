package main

import (
	"fmt"

	"holdfast/session/words"
)

// escaped returns a stranger's text for a terminal or a table cell.
func escaped(s string) string { return words.Printable(s) }

// scopeText names the scope of a session.
func scopeText(isLocal bool) string { return map[bool]string{true: "local", false: "global"}[isLocal] }

func yes(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }

func number[N ~uint8 | ~uint64](n N) string { return fmt.Sprintf("%d", n) }

// share shows a use and its limit as USE/LIMIT, or the use alone when the limit is 0, which means none.
func share(n, of uint64, text func(uint64) string) string {
	if of == 0 {
		return text(n)
	}
	return text(n) + "/" + text(of)
}

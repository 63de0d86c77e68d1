package main

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"holdfast/session"
)

// escaped returns a stranger's text, such as a server's error or address, for a terminal or a table cell. It writes
// characters that are not printable as Go does in a string: they could control the terminal or break the cell.
func escaped(s string) string {
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// labelText writes labels as KEY=VALUE with commas between. Labels are any text that a client chose: it quotes keys and
// values that could pass for something else.
func labelText(labels session.Labels) string {
	words := make([]string, 0, len(labels))
	for _, l := range labels {
		words = append(words, quoteIfStrange(l.Key, `,"=`)+"="+quoteIfStrange(l.Value, `,"`))
	}
	return orDash(strings.Join(words, ","))
}

// quoteIfStrange quotes s if it has one of the special characters or a character that is not printable.
func quoteIfStrange(s, special string) string {
	if strings.ContainsAny(s, special) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// scopeText names the scope of a session.
func scopeText(isLocal bool) string { return map[bool]string{true: "local", false: "global"}[isLocal] }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// spanText rounds a duration to the millisecond. A negative duration is unknown, and becomes a dash.
func spanText(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}

// timeText shows a moment to the millisecond. The zero time becomes a dash.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Round(0).Format("2006-01-02T15:04:05.000Z07:00")
}

func yes(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }

func number[N ~uint8 | ~uint64](n N) string { return fmt.Sprintf("%d", n) }

// share shows a use and its limit as USE/LIMIT, or the use alone when the limit is 0, which means none.
func share(n, of uint64, text func(uint64) string) string {
	if of == 0 {
		return text(n)
	}
	return text(n) + "/" + text(of)
}

// bytesText shows a number of bytes in the largest unit that leaves at least 1. It cuts after one digit behind the
// point.
func bytesText(n uint64) string {
	const units = "KMGT"
	if n < 1<<10 {
		return number(n) + "B"
	}
	at := (bits.Len64(n) - 1) / 10
	at = min(at, len(units))
	tenths := n * 10 >> (10 * at)
	if tenths%10 == 0 {
		return number(tenths/10) + units[at-1:at]
	}
	return fmt.Sprintf("%d.%d%s", tenths/10, tenths%10, units[at-1:at])
}

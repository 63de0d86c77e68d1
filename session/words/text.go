package words

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"holdfast/session"
)

// Labels writes labels as KEY=VALUE, separated by commas. Labels are any text that a client chose: keys and values that
// could be misread are quoted.
func Labels(labels session.Labels) string {
	words := make([]string, 0, len(labels))
	for _, l := range labels {
		words = append(words, Quoted(l.Key, `,"=`)+"="+Quoted(l.Value, `,"`))
	}
	return OrDash(strings.Join(words, ","))
}

// Quoted quotes s if it has one of the special characters or a character that is not printable.
func Quoted(s, special string) string {
	if strings.ContainsAny(s, special) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Printable returns untrusted text, such as a label or a server's error, for a terminal or a table cell. It writes
// characters that are not printable as Go does in a string: they could control the terminal or break the cell.
func Printable(s string) string {
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

// OrDash returns a dash for the empty text.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Span rounds a duration to the millisecond. A negative duration is unknown, and becomes a dash.
func Span(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}

// Moment shows a moment to the millisecond. The zero time becomes a dash.
func Moment(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Round(0).Format("2006-01-02T15:04:05.000Z07:00")
}

// Bytes shows a number of bytes in the largest unit that leaves at least 1, and truncates it to one digit behind the
// point.
func Bytes(n uint64) string {
	const units = "KMGT"
	if n < 1<<10 {
		return strconv.FormatUint(n, 10) + "B"
	}
	at := (bits.Len64(n) - 1) / 10
	at = min(at, len(units))
	tenths := n * 10 >> (10 * at)
	if tenths%10 == 0 {
		return strconv.FormatUint(tenths/10, 10) + units[at-1:at]
	}
	return fmt.Sprintf("%d.%d%s", tenths/10, tenths%10, units[at-1:at])
}

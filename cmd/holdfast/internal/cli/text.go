package cli

import (
	"fmt"
	"strings"

	"holdfast/session/words"
)

// Escape makes text from another machine safe for a terminal.
func Escape(s string) string { return words.Printable(s) }

// EscapeLines escapes sentences, and puts each on a line.
func EscapeLines(sentences []string) string {
	lines := make([]string, len(sentences))
	for i, s := range sentences {
		lines[i] = Escape(s)
	}
	return strings.Join(lines, "\n")
}

// OneLine returns the text of an error on one line, escaped and without credentials. A server may have written the
// text, or the text may repeat an argument, such as a token in the place of an id.
func OneLine(err error) string {
	return withoutSecrets(Escape(strings.ReplaceAll(err.Error(), "\n", ": ")))
}

// Scope names the scope of a session.
func Scope(isLocal bool) string { return map[bool]string{true: "local", false: "global"}[isLocal] }

// YesNo shows a bool.
func YesNo(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }

// Number shows a whole number.
func Number[N ~uint8 | ~uint64](n N) string { return fmt.Sprintf("%d", n) }

// UsedOf shows a use and its limit as USE/LIMIT, or the use alone when the limit is 0, which means no limit.
func UsedOf(used, limit uint64, text func(uint64) string) string {
	if limit == 0 {
		return text(used)
	}
	return text(used) + "/" + text(limit)
}

// Paragraphs escapes each text and puts a line feed before it. It wraps lines between words to the given number of
// columns; 0 wraps nothing.
func Paragraphs(texts []string, columns int) string {
	var all strings.Builder
	for _, text := range texts {
		all.WriteString("\n" + wrap(Escape(text), columns))
	}
	return all.String()
}

// wrap breaks text between words into lines of at most the given number of columns, where the words allow. It indents
// the lines after the first.
func wrap(text string, columns int) string {
	const indent = "  "
	if columns <= len(indent) {
		return text
	}
	var all strings.Builder
	width := 0
	for word := range strings.SplitSeq(text, " ") {
		n := len([]rune(word))
		switch {
		case width == 0:
		case width+1+n > columns:
			all.WriteString("\n" + indent)
			width = len(indent)
		default:
			all.WriteByte(' ')
			width++
		}
		all.WriteString(word)
		width += n
	}
	return all.String()
}

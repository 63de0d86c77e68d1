package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Printer writes results to the standard output, as text or JSON, and messages to the standard error.
type Printer struct {
	Stdout, Stderr io.Writer
	// Columns is the width of the terminal at the standard output, 0 when there is no terminal.
	Columns int

	// format is table or json once checkFormat has passed.
	format   string
	terminal bool
	// queue has the messages for Stderr once BufferStderr was called.
	queue *messageQueue
}

const (
	formatTable = "table"
	formatJSON  = "json"
)

// register adds the flag --output, which all commands share.
func (p *Printer) register(root *cobra.Command) {
	root.PersistentFlags().StringVarP(&p.format, "output", "o", formatTable, "output format: table or json")
	CompleteWords(root, "output", formatTable, formatJSON)
}

func (p *Printer) checkFormat() error {
	if p.format != formatTable && p.format != formatJSON {
		return Usage("-o %q: want table or json", p.format)
	}
	return nil
}

// JSON reports whether --output json is set.
func (p *Printer) JSON() bool { return p.format == formatJSON }

// Terminal reports whether the standard output is a terminal.
func (p *Printer) Terminal() bool { return p.terminal }

// Print writes v as JSON, or the text for people.
func (p *Printer) Print(v any, text func() string) error {
	if p.JSON() {
		return writeJSON(p.Stdout, v, "  ")
	}
	return writeText(p.Stdout, text())
}

// PrintLine writes v as JSON on one line, or the text for people. Commands that print events use it.
func (p *Printer) PrintLine(v any, text string) error {
	if p.JSON() {
		return writeJSON(p.Stdout, v, "")
	}
	return writeText(p.Stdout, text)
}

// PrintData writes bytes unchanged. For a terminal it escapes the bytes that a terminal would obey.
func (p *Printer) PrintData(data []byte) error {
	if !p.terminal {
		_, err := p.Stdout.Write(data)
		return err
	}
	return writeText(p.Stdout, strings.TrimSuffix(printableData(data), "\n"))
}

// Messagef writes to the standard error. It ignores errors of the standard error.
func (p *Printer) Messagef(format string, args ...any) {
	if p.queue != nil {
		p.queue.add(fmt.Sprintf(format, args...))
		return
	}
	_, _ = fmt.Fprintf(p.Stderr, format, args...)
}

// BufferStderr makes Messagef return at once when the standard error is blocked. Commands that supervise a program call
// it before they start a goroutine: a full pipe or a stopped terminal must not delay the supervision.
func (p *Printer) BufferStderr() { p.queue = &messageQueue{to: p.Stderr} }

// flush waits until the standard error has the buffered messages, for at most [flushTimeout].
func (p *Printer) flush() {
	if p.queue != nil {
		p.queue.flush()
	}
}

// Progressf replaces the last line of the standard error, if that is a terminal.
func (p *Printer) Progressf(format string, args ...any) {
	if IsTerminal(p.Stderr) {
		p.Messagef("\r"+format+"\x1b[K", args...)
	}
}

// writeJSON writes v and a line feed. It escapes the control characters of C1: JSON allows them, and terminals obey
// them.
func writeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	var text strings.Builder
	for _, r := range b.String() {
		if r >= 0x7f && unicode.IsControl(r) {
			fmt.Fprintf(&text, `\u%04x`, r)
		} else {
			text.WriteRune(r)
		}
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// writeText writes styled text and a line feed. A writer that is no terminal gets the text without style.
func writeText(w io.Writer, text string) error {
	_, err := lipgloss.Fprintln(w, text)
	return err
}

// Table lays out rows under bold headers. It escapes all cells.
func Table(headers []string, rows [][]string) string {
	return layOut(table.New().Headers(headers...), rows, func(row, _ int) bool { return row == table.HeaderRow })
}

// Properties lays out rows of a bold name and a value. It escapes all cells.
func Properties(rows [][]string) string {
	return layOut(table.New(), rows, func(_, column int) bool { return column == 0 })
}

// layOut renders rows without borders; bold selects the bold cells.
func layOut(t *table.Table, rows [][]string, bold func(row, column int) bool) string {
	t = t.Rows(escapeRows(rows)...).Wrap(false).BorderTop(false).BorderBottom(false).BorderLeft(false).
		BorderRight(false).BorderColumn(false).BorderHeader(false).
		StyleFunc(func(row, column int) lipgloss.Style {
			return lipgloss.NewStyle().PaddingRight(2).Bold(bold(row, column))
		})
	return trimLines(t.Render())
}

func escapeRows(rows [][]string) [][]string {
	all := make([][]string, 0, len(rows))
	for _, row := range rows {
		cells := make([]string, 0, len(row))
		for _, cell := range row {
			cells = append(cells, Escape(cell))
		}
		all = append(all, cells)
	}
	return all
}

// trimLines cuts the spaces at the end of each line and the empty lines at the end.
func trimLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n "), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(file.Fd())) //nolint:gosec // a descriptor is small
}

// columnsOf returns the width of a terminal, 0 for a stream that is no terminal.
func columnsOf(stream any) int {
	file, ok := stream.(interface{ Fd() uintptr })
	if !ok {
		return 0
	}
	columns, _, _ := term.GetSize(int(file.Fd())) //nolint:gosec // a descriptor is small
	return max(columns, 0)
}

// printableData returns data as text for a terminal. Lines and tabs stay; other bytes that are not printable become
// escape sequences as in Go strings.
func printableData(data []byte) string {
	var b strings.Builder
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == '\n', r == '\t', strconv.IsPrint(r) && (r != utf8.RuneError || size > 1):
			b.WriteRune(r)
		case r == utf8.RuneError && size == 1:
			b.WriteString(`\x` + strconv.FormatUint(uint64(data[0])|0x100, 16)[1:])
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		data = data[size:]
	}
	return b.String()
}

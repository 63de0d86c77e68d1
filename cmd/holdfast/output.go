package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
	"github.com/spf13/cobra"
)

// printer writes results to the standard output, in the format that the user asked for, and remarks to the standard
// error.
type printer struct {
	stdout, stderr io.Writer
	// format is table or json once check has passed.
	format string
	// terminal says that people read the standard output; columns is its width then.
	terminal bool
	columns  int
	// aside takes complaints in place of stderr once leaveAside was called.
	aside *remarks
}

// formatJSON is the format for programs.
const formatJSON = "json"

// register adds the flag that all commands share.
func (p *printer) register(root *cobra.Command) {
	root.PersistentFlags().StringVarP(&p.format, "output", "o", "table", "output format: table or json")
	completeWords(root, "output", "table", "json")
}

// check returns a usage error for an unknown format.
func (p *printer) check() error {
	if p.format != "table" && p.format != formatJSON {
		return usage("-o %q: want table or json", p.format)
	}
	return nil
}

// print writes v as JSON or the text, as the user asked.
func (p *printer) print(v any, text func() string) error {
	if p.format == formatJSON {
		return writeJSON(p.stdout, v, "  ")
	}
	return writeText(p.stdout, text())
}

// printLine writes v as one line of JSON or the text, as the user asked.
func (p *printer) printLine(v any, text string) error {
	if p.format == formatJSON {
		return writeJSON(p.stdout, v, "")
	}
	return writeText(p.stdout, text)
}

// complain writes to the standard error. It ignores a failure: nobody is left to hear of it.
func (p *printer) complain(format string, args ...any) {
	if p.aside != nil {
		p.aside.add(fmt.Sprintf(format, args...))
		return
	}
	_, _ = fmt.Fprintf(p.stderr, format, args...)
}

// leaveAside has complain wait no more for the standard error to take anything. Commands that look after a program
// call it before they start a goroutine: a full pipe or a stalled terminal must not keep them from that.
func (p *printer) leaveAside() { p.aside = &remarks{to: p.stderr} }

// finish waits until the standard error has taken the complaints, or has had [lastWords] for that.
func (p *printer) finish() {
	if p.aside != nil {
		p.aside.wait()
	}
}

// progress shows how far a long command has come, if people read the standard error.
func (p *printer) progress(format string, args ...any) {
	if isTerminal(p.stderr) {
		p.complain("\r"+format+"\x1b[K", args...)
	}
}

// writeJSON writes v and ends the line. It escapes the control characters of C1 too, which JSON allows in strings:
// terminals obey them.
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

// writeText writes styled text and ends the line. A writer that is no terminal gets the text without style.
func writeText(w io.Writer, text string) error {
	_, err := lipgloss.Fprintln(w, text)
	return err
}

// columns lays out rows under bold headers. It escapes all cells.
func columns(headers []string, rows [][]string) string {
	return layOut(table.New().Headers(headers...), rows, func(row, _ int) bool { return row == table.HeaderRow })
}

// properties lays out rows of a bold name and a value. It escapes all cells.
func properties(rows [][]string) string {
	return layOut(table.New(), rows, func(_, column int) bool { return column == 0 })
}

// layOut renders rows without borders; bold says which cells are bold.
func layOut(t *table.Table, rows [][]string, bold func(row, column int) bool) string {
	t = t.Rows(escapedRows(rows)...).Wrap(false).BorderTop(false).BorderBottom(false).BorderLeft(false).
		BorderRight(false).BorderColumn(false).BorderHeader(false).
		StyleFunc(func(row, column int) lipgloss.Style {
			return lipgloss.NewStyle().PaddingRight(2).Bold(bold(row, column))
		})
	return trimLines(t.Render())
}

// escapedRows returns rows with every cell escaped.
func escapedRows(rows [][]string) [][]string {
	all := make([][]string, 0, len(rows))
	for _, row := range rows {
		cells := make([]string, 0, len(row))
		for _, cell := range row {
			cells = append(cells, escaped(cell))
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

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"

	"holdfast/session"
)

// print writes v as JSON, or what table makes of it, as the user wishes.
func (c *cli) print(v any, text func() string) error {
	if c.output == "json" {
		return writeJSON(c.stdout, v, "  ")
	}
	return write(c.stdout, text())
}

// writeJSON writes v and ends the line. Control characters of C1, which JSON may hold as they are, are escaped like all
// others: terminals obey them.
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

// escaped is text of a stranger, such as a server's error or address, as it may go to a terminal and into a cell: what
// is not printable could command the one and cut the other, and is written as Go writes it in a string.
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

// write prints styled text; what is no terminal gets it plain.
func write(w io.Writer, text string) error {
	_, err := lipgloss.Fprintln(w, text)
	return err
}

// columns lays out rows under headers, whatever is in the cells.
func columns(headers []string, rows [][]string) string {
	t := table.New().Headers(headers...).Rows(escapedRows(rows)...).Wrap(false).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderColumn(
		false,
	).BorderHeader(false).
		StyleFunc(func(row, _ int) lipgloss.Style {
			return lipgloss.NewStyle().PaddingRight(2).Bold(row == table.HeaderRow)
		})
	return trimLines(t.Render())
}

// properties lays out names and values, whatever is in them.
func properties(rows [][]string) string {
	t := table.New().Rows(escapedRows(rows)...).Wrap(false).
		BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).BorderColumn(
		false,
	).BorderHeader(false).
		StyleFunc(func(_, column int) lipgloss.Style {
			return lipgloss.NewStyle().PaddingRight(2).Bold(column == 0)
		})
	return trimLines(t.Render())
}

func trimLines(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n "), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// idText is a session id that is text in JSON: numbers of 64 bits do not survive every reader.
type idText session.ID

// MarshalText writes 0x and 16 hexadecimal digits.
func (id idText) MarshalText() ([]byte, error) { //nolint:unparam // encoding.TextMarshaler has an error
	return []byte(session.ID(id).String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (id *idText) UnmarshalText(b []byte) error {
	v, err := session.ParseID(string(b))
	*id = idText(v)
	return err
}

// sessionView is a session in JSON.
type sessionView struct {
	ID          idText            `json:"id"`
	TimeoutMS   int64             `json:"timeout_ms"`
	Owner       session.Node      `json:"owner"`
	Attachment  uint64            `json:"attachment"`
	Labels      map[string]string `json:"labels,omitempty"`
	OpenedIndex uint64            `json:"opened_index"`
	OpenedAt    time.Time         `json:"opened_at"`
	Local       bool              `json:"local,omitempty"`
	// RemainingMS is absent when unknown.
	RemainingMS *int64 `json:"remaining_ms,omitempty"`
}

func viewSession(s session.Session, remaining time.Duration) sessionView {
	v := sessionView{
		ID: idText(s.ID), TimeoutMS: s.Timeout.Milliseconds(), Owner: s.Owner, Attachment: s.Attachment,
		OpenedIndex: s.OpenedIndex, OpenedAt: s.OpenedAt, Local: s.Local,
	}
	for _, l := range s.Labels {
		if v.Labels == nil {
			v.Labels = make(map[string]string, len(s.Labels))
		}
		v.Labels[l.Key] = l.Value
	}
	if remaining >= 0 {
		v.RemainingMS = new(remaining.Milliseconds())
	}
	return v
}

// certificateView is a certificate in JSON.
type certificateView struct {
	ID    idText `json:"id"`
	Cause string `json:"cause"`
	// LastTouchAgeMS is absent when no touch was known.
	LastTouchAgeMS *int64       `json:"last_touch_age_ms,omitempty"`
	Owner          session.Node `json:"owner"`
	Term           uint64       `json:"term"`
	Index          uint64       `json:"index"`
	CreditedMS     int64        `json:"credited_ms"`
	EndedAt        time.Time    `json:"ended_at"`
}

func viewCertificate(c session.Certificate) certificateView {
	v := certificateView{
		ID: idText(c.ID), Cause: c.Cause.String(), Owner: c.Owner, Term: c.Term, Index: c.Index,
		CreditedMS: c.Credited.Milliseconds(), EndedAt: c.EndedAt,
	}
	if c.LastTouchAge >= 0 {
		v.LastTouchAgeMS = new(c.LastTouchAge.Milliseconds())
	}
	return v
}

// labelText shows labels. They are any text that a client chose: what could be taken for something else is quoted.
func labelText(labels session.Labels) string {
	words := make([]string, 0, len(labels))
	for _, l := range labels {
		words = append(words, quoteIfStrange(l.Key, `,"=`)+"="+quoteIfStrange(l.Value, `,"`))
	}
	return orDash(strings.Join(words, ","))
}

// quoteIfStrange quotes s when it has one of the special characters, or one that is not printable.
func quoteIfStrange(s, special string) string {
	if strings.ContainsAny(s, special) || strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// scopeText says who knows a session: its node alone, or all.
func scopeText(isLocal bool) string { return map[bool]string{true: "local", false: "global"}[isLocal] }

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// spanText shows a duration to the millisecond, a dash for an unknown one.
func spanText(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}

// timeText shows a moment to the millisecond, a dash for none.
func timeText(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Round(0).Format("2006-01-02T15:04:05.000Z07:00")
}

func yes(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }

func number[N ~uint8 | ~uint64](n N) string { return fmt.Sprintf("%d", n) }

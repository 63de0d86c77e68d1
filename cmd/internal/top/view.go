package top

import (
	"fmt"
	"math"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"holdfast/session"
	"holdfast/session/words"
)

// style styles text. A terminal without colours, or a file, gets plain text.
type style struct{ bold, dim, bad, cursor lipgloss.Style }

func styles() style {
	return style{
		bold: lipgloss.NewStyle().Bold(true), dim: lipgloss.NewStyle().Faint(true),
		bad: lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red), cursor: lipgloss.NewStyle().Reverse(true),
	}
}

// View draws the model within the size of its terminal.
func (m *Model) View() string {
	if m.helping {
		return m.fit(append(help(), "", "Any key goes back."))
	}
	lines := m.head()
	if m.detail != nil {
		return m.fit(append(lines, m.detailLines(m.height-len(lines)-1)...), "esc back  up/down scroll  r ask again  q quit")
	}
	lines = append(lines, m.title())
	lines = append(lines, m.list(m.listHeight())...)
	return m.fit(lines, m.foot())
}

// Once draws all sections, without a cursor, for output to programs.
func (m *Model) Once(rows int) string {
	lines := m.head()
	for s := range Section(sections) {
		m.section, m.at = s, -1
		lines = append(lines, "", m.title())
		lines = append(lines, m.list(rows)...)
	}
	for i := range lines {
		lines[i] = strings.TrimRight(m.cut(lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}

// fit returns lines as a screen, with last at its bottom.
func (m *Model) fit(lines []string, last ...string) string {
	lines = lines[:min(len(lines), m.height-len(last))]
	for len(lines) < m.height-len(last) {
		lines = append(lines, "")
	}
	lines = append(lines, last...)
	for i := range lines {
		lines[i] = m.cut(lines[i])
	}
	return strings.Join(lines, "\n")
}

// cut cuts a line at the terminal's right edge.
func (m *Model) cut(line string) string {
	return lipgloss.NewStyle().MaxWidth(m.width).Inline(true).Render(line)
}

// listHeight returns how many lines a section has.
func (m *Model) listHeight() int { return max(1, m.height-len(m.head())-3) }

// head returns the lines above the sections.
func (m *Model) head() []string {
	st := styles()
	lines := []string{m.headline(st)}
	if alarms := m.alarms(); len(alarms) > 0 {
		more := ""
		if len(alarms) > 1 {
			more = fmt.Sprintf("  (and %d more)", len(alarms)-1)
		}
		lines = append(lines, st.bad.Render("! "+alarms[0]+more))
	}
	lines = append(lines, m.totals())
	lines = append(lines, m.rateLines(st)...)
	return append(lines, m.nodeLines(st)...)
}

func (m *Model) headline(st style) string {
	name, leads := "no node answers", ""
	if l := m.sample.best(); l != nil {
		name, leads = words.Printable(l.ClusterID), "no leader"
		if l.Leader != 0 {
			leads = fmt.Sprintf("node %d leads term %d", l.Leader, l.Term)
		}
	}
	line := st.bold.Render("holdfast top  "+name) + "  " + leads
	if !m.sample.At.IsZero() {
		line += "  " + m.sample.At.Local().Format("15:04:05")
	}
	line += "  every " + m.every.String()
	if m.paused {
		line += "  " + st.cursor.Render(" PAUSED ")
	}
	return line
}

// alarms returns problems that need attention, the worst first.
func (m *Model) alarms() (all []string) {
	for i := range m.sample.Nodes {
		n := &m.sample.Nodes[i]
		switch {
		case n.Silent != "":
			all = append(all, fmt.Sprintf("%s: %s", words.Printable(n.Endpoint), words.Printable(n.Silent)))
		case n.Status.Drain != nil:
			all = append(all, fmt.Sprintf("node %d is being drained", n.Status.Node))
		case !n.Status.Ready:
			all = append(all, fmt.Sprintf("node %d is not ready: %s", n.Status.Node, words.Printable(n.Status.NotReadyBecause)))
		case n.Status.Warning != "":
			all = append(all, fmt.Sprintf("node %d: %s", n.Status.Node, words.Printable(n.Status.Warning)))
		}
	}
	if l := m.sample.best(); l != nil && l.Freezing != nil {
		all = append(all, fmt.Sprintf("frozen: nothing expires for %s more", short(l.Freezing.Left)))
	}
	for _, f := range m.sample.Failed() {
		all = append(all, words.Printable(f))
	}
	return all
}

// totals says how much there is in the cluster.
func (m *Model) totals() string {
	l := m.sample.best()
	if l == nil {
		return ""
	}
	var local, watches uint64
	for i := range m.sample.Nodes {
		local += m.sample.Nodes[i].Status.Local
		watches += m.sample.Nodes[i].Status.Watches
	}
	text := number(l.Global)
	if l.MaxSessions > 0 {
		text += " of " + number(l.MaxSessions)
	}
	return fmt.Sprintf("%s sessions, %s local   tree %s entries, %s   %s watches   state %s", text, number(local),
		number(l.TreeEntries), words.Bytes(l.TreeBytes), number(watches), words.Bytes(l.StateBytes))
}

// rateLines returns the rates, two to a line.
func (m *Model) rateLines(st style) (lines []string) {
	column := m.width/2 - 1
	one := func(r rate) string {
		text := fmt.Sprintf("%-11s %8s/s ", r.name(), perSecond(m.rates.newest(r)))
		return text + st.dim.Render(sparks(m.rates.values[r], max(1, column-len(text))))
	}
	for _, pair := range [][2]rate{{opens, moves}, {closes, expiries}, {writes, entries}} {
		lines = append(lines, one(pair[0])+"  "+one(pair[1]))
	}
	return lines
}

// nodeLines returns a line for each node. Important facts are at the left: figures grow, and a narrow terminal cuts
// them off. A silent node has no columns, because the name of its endpoint may be long and would move them.
func (m *Model) nodeLines(st style) []string {
	headers := []string{"NODE", "ROLE", "READY", "TERM", "APPLIED", "SESSIONS", "ATTACHED", "WATCHES", "ROUND TRIP"}
	var rows [][]string
	for i := range m.sample.Nodes {
		if n := &m.sample.Nodes[i]; n.Silent == "" {
			rows = append(rows, nodeCells(n))
		}
	}
	aligned := align(headers, rows)
	lines := []string{st.bold.Render(aligned[0])}
	for i := range m.sample.Nodes {
		n := &m.sample.Nodes[i]
		if n.Silent != "" {
			lines = append(lines, words.Printable(n.Endpoint)+"  silent: "+words.Printable(n.Silent))
			continue
		}
		aligned = aligned[1:]
		lines = append(lines, aligned[0])
	}
	return lines
}

// nodeCells returns the columns of a node that answered.
func nodeCells(n *Node) []string {
	s := &n.Status
	ready := "yes"
	switch {
	case s.Drain != nil:
		ready = "draining"
	case !s.Ready:
		ready = "no"
	}
	return []string{
		node(s.Node), s.Role, ready, number(s.Term), number(s.AppliedIndex), number(s.Global + s.Local),
		number(s.Attached), number(s.Watches), n.RoundTrip.Round(10 * time.Microsecond).String(),
	}
}

// title names the sections, and how the shown section is sorted and filtered.
func (m *Model) title() string {
	st := styles()
	var parts []string
	for s := range Section(sections) {
		name := fmt.Sprintf("%d %s", s+1, m.called(s))
		if s == m.section {
			name = st.cursor.Render(" " + name + " ")
		}
		parts = append(parts, name)
	}
	by := "by " + orders(m.section)[m.sorted[m.section]].name
	if m.reversed {
		by += ", reversed"
	}
	line := strings.Join(parts, "  ") + "  " + by
	if m.filter != "" {
		line += "  filter: " + words.Printable(m.filter)
	}
	return line
}

func (m *Model) called(s Section) string {
	switch s {
	case Sessions:
		return "expiring"
	case Clients:
		return "clients"
	case Deaths:
	}
	return "deaths"
}

// list draws the lines of the section around the cursor, and their headers.
func (m *Model) list(height int) []string {
	st := styles()
	all := m.rows()
	cells := make([][]string, len(all))
	for i := range all {
		cells[i] = all[i].cells
	}
	lines := align(headersOf(m.section), cells)
	lines[0] = st.bold.Render(lines[0])
	if len(all) == 0 {
		return append(lines, st.dim.Render(m.none()))
	}
	if m.at >= 0 {
		at := 1 + min(m.at, len(all)-1)
		lines[at] = st.cursor.Render(fmt.Sprintf("%-*s", m.width, lines[at]))
	}
	from := max(0, m.at-height+1)
	return append(lines[:1:1], lines[1+from:min(len(lines), 1+from+height)]...)
}

func headersOf(s Section) []string {
	switch s {
	case Sessions:
		return []string{"ID", "NODE", "LEFT", "TIMEOUT", "AGE", "LABELS"}
	case Clients:
		return []string{"ADDRESS", "NODE", "PROTOCOL", "REQUESTS/S", "SESSIONS", "WATCHES", "NAME"}
	case Deaths:
	}
	return []string{"AGO", "ID", "CAUSE", "NODE", "LATE", "LABELS"}
}

// none reports that a section has no lines.
func (m *Model) none() string {
	switch {
	case m.sample.At.IsZero():
		return "asking the cluster"
	case m.sample.Missing[m.section] != "":
		return "not known: " + words.Printable(m.sample.Missing[m.section])
	case m.section == Clients && !m.sample.ClientsKnown:
		return "no node has listed its connections"
	case m.filter != "":
		return "nothing matches the filter"
	case m.section == Sessions:
		return "no session"
	default:
		return "none"
	}
}

func (m *Model) foot() string {
	if m.typing {
		shown := []rune(words.Printable(m.filter))
		return "/" + string(shown[max(0, len(shown)-m.width/3):]) + "_  a text, or a label KEY=VALUE  enter done  esc none"
	}
	return "1-3 section  s/R sort  / filter  enter why  p pause  +/- speed  ? help  q quit"
}

// detailLines draws the page about one line, within height lines.
func (m *Model) detailLines(height int) []string {
	st := styles()
	lines := []string{"", st.bold.Render(m.detail.title)}
	wrapped := lipgloss.NewStyle().Width(m.width - 4)
	for _, one := range m.detail.lines {
		for i, line := range strings.Split(wrapped.Render(words.Printable(one)), "\n") {
			lines = append(lines, map[bool]string{true: "- ", false: "  "}[i == 0]+line)
		}
	}
	m.detail.top = min(m.detail.top, max(0, len(lines)-max(1, height)))
	return lines[m.detail.top:]
}

func connectionDetails(c *Connection, now time.Time) []string {
	return []string{
		fmt.Sprintf("It speaks %s with node %d, for %s now.", c.Protocol, c.Node, short(now.Sub(c.Since))),
		fmt.Sprintf("Its name: %s. For access lists it is: %s.", named(c), words.OrDash(strings.Join(c.Principals, ", "))),
		fmt.Sprintf("It serves %d sessions and has %d watches.", c.Sessions, c.Watches),
		fmt.Sprintf("It has sent %d requests, %s a second in the last %s. %s wait for it.", c.Requests,
			perSecond(c.Rate), short(c.Over), words.Bytes(c.Unsent)),
	}
}

// help explains the keys.
func help() []string {
	return []string{
		"Keys of holdfast top",
		"",
		"1 2 3, tab      sessions soonest to expire, the busiest clients, recent deaths",
		"up down, j k    move the cursor; page up, page down, home, end",
		"enter           why the session under the cursor is alive, or why it ended",
		"s, R            sort by something else, the other way round",
		"/               show only lines with a text. A label, KEY=VALUE or KEY=, is",
		"                a query to the cluster: it searches all sessions",
		"esc             remove the filter",
		"p, space        pause: the picture stays as it is",
		"+ -             refresh more often, or less",
		"r               refresh now",
		"q, ctrl+c       quit",
	}
}

// align aligns cells in columns under headers. Lines have no padding at the end.
func align(headers []string, rows [][]string) []string {
	widths := make([]int, len(headers))
	all := append([][]string{headers}, rows...)
	for _, cells := range all {
		for i, cell := range cells {
			widths[i] = max(widths[i], lipgloss.Width(cell))
		}
	}
	lines := make([]string, len(all))
	for n, cells := range all {
		var b strings.Builder
		for i, cell := range cells {
			b.WriteString(cell)
			if i < len(cells)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-lipgloss.Width(cell)+2))
			}
		}
		lines[n] = b.String()
	}
	return lines
}

func node(n session.Node) string { return fmt.Sprintf("%d", n) }

// number groups the digits of a number.
func number(n uint64) string {
	text := fmt.Sprintf("%d", n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// perSecond shows a rate; a dash for an unknown one.
func perSecond(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	default:
		return number(uint64(math.Round(v)))
	}
}

// short shows a duration in at most seven characters; a dash for an unknown one.
func short(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 100*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
}

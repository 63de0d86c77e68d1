package top

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"holdfast/session"
	"holdfast/session/words"
)

// Section is a list that a model shows below the nodes.
type Section int

// Sections.
const (
	Sessions Section = iota
	Clients
	Deaths
)

// sections is how many there are.
const sections = int(Deaths) + 1

// minTimeout is the shortest time limit for answers.
const minTimeout = time.Second

// order is a way to sort a section.
type order struct {
	name string
	less func(a, b *row) int
}

// row is a line of a section.
type row struct {
	cells   []string
	id      session.ID
	numbers [2]float64 // for comparison by the orders
	labels  session.Labels
	details []string // of a connection
}

// key identifies a line in its section.
func (r *row) key() string {
	if r.id != 0 {
		return r.id.String()
	}
	return r.cells[0]
}

// Model is the state of the display. It is not safe for concurrent use.
type Model struct {
	every         time.Duration
	width, height int
	sample        Sample
	rates         rates
	section       Section
	sorted        [sections]int
	reversed      bool
	filter        string
	typing        bool
	paused        bool
	helping       bool
	// at is the line of the cursor in its section. The cursor stays on its session or address while other lines come
	// and go.
	at     int
	detail *detail
}

// detail is the page about one line.
type detail struct {
	id    session.ID
	title string
	lines []string
	top   int
}

// New returns a model for a terminal of 80 x 24 with the given interval between samples.
func New(every time.Duration) *Model {
	return &Model{every: every, width: 80, height: 24}
}

// Resize sets the size of the terminal.
func (m *Model) Resize(width, height int) { m.width, m.height = max(width, 40), max(height, 10) }

// Paused reports whether the user has stopped the picture.
func (m *Model) Paused() bool { return m.paused }

// Every is the time between two samples.
func (m *Model) Every() time.Duration { return m.every }

// Query returns what the next sample should contain.
func (m *Model) Query() Query {
	w := Query{Timeout: max(minTimeout, m.every)}
	if key, value, is := strings.Cut(m.filter, "="); is && !m.typing && key != "" {
		w.Labels = map[string]string{key: value}
	}
	return w
}

// Add adds the next sample.
func (m *Model) Add(s Sample) {
	under := ""
	if all := m.rows(); m.at > 0 && m.at < len(all) {
		under = all[m.at].key()
	}
	m.sample = s
	m.rates.add(&s)
	all := m.rows()
	m.at = min(m.at, max(0, len(all)-1))
	if i := slices.IndexFunc(all, func(r row) bool { return r.key() == under }); under != "" && i >= 0 {
		m.at = i
	}
}

// orders returns the ways to sort a section, the default first.
func orders(of Section) []order {
	by := func(i int) func(a, b *row) int {
		return func(a, b *row) int { return cmp.Compare(a.numbers[i], b.numbers[i]) }
	}
	more := func(i int) func(a, b *row) int {
		return func(a, b *row) int { return cmp.Compare(b.numbers[i], a.numbers[i]) }
	}
	id := func(a, b *row) int { return cmp.Compare(a.id, b.id) }
	switch of {
	case Sessions:
		return []order{{"time left", by(0)}, {"age", more(1)}, {"id", id}}
	case Clients:
		return []order{{"requests", more(0)}, {"sessions", more(1)}}
	case Deaths:
	}
	return []order{{"time", more(0)}, {"lateness", more(1)}, {"id", id}}
}

// rows returns the lines of the section that the filter lets through, in order.
func (m *Model) rows() []row {
	var all []row
	switch m.section {
	case Sessions:
		all = sessionRows(&m.sample)
	case Clients:
		all = clientRows(&m.sample)
	case Deaths:
		all = deathRows(&m.sample)
	}
	all = slices.DeleteFunc(all, func(r row) bool { return !m.shows(&r) })
	less := orders(m.section)[m.sorted[m.section]].less
	slices.SortStableFunc(all, func(a, b row) int {
		if m.reversed {
			return less(&b, &a)
		}
		return less(&a, &b)
	})
	return all
}

// shows reports whether the filter lets a line through: a label as KEY=VALUE or KEY=, or a text in any cell.
func (m *Model) shows(r *row) bool {
	if key, value, is := strings.Cut(m.filter, "="); is && slices.ContainsFunc(r.labels, func(l session.Label) bool {
		return l.Key == key && (value == "" || l.Value == value)
	}) {
		return true
	}
	return m.filter == "" || slices.ContainsFunc(r.cells, func(cell string) bool {
		return strings.Contains(strings.ToLower(cell), strings.ToLower(m.filter))
	})
}

func sessionRows(s *Sample) []row {
	all := make([]row, len(s.Expiring))
	for i, l := range s.Expiring {
		age := s.At.Sub(l.Session.OpenedAt)
		all[i] = row{
			id: l.Session.ID,
			cells: []string{
				l.Session.ID.String(), node(l.Session.Owner), short(l.Remaining), short(l.Session.Timeout), short(age),
				words.Printable(words.Labels(l.Session.Labels)),
			},
			numbers: [2]float64{float64(l.Remaining), float64(age)},
			labels:  l.Session.Labels,
		}
	}
	return all
}

func clientRows(s *Sample) []row {
	all := make([]row, len(s.Clients))
	for i := range s.Clients {
		c := &s.Clients[i]
		all[i] = row{
			cells: []string{
				words.Printable(c.Address), node(c.Node), c.Protocol, perSecond(c.Rate), number(c.Sessions),
				number(c.Watches), words.Printable(named(c)),
			},
			numbers: [2]float64{c.Rate, float64(c.Sessions)},
			details: connectionDetails(c, s.At),
		}
	}
	return all
}

// named returns the name of a client, marked if it is unverified.
func named(c *Connection) string {
	if c.Name != "" && !c.Verified {
		return c.Name + " (unverified)"
	}
	return words.OrDash(c.Name)
}

func deathRows(s *Sample) []row {
	all := make([]row, len(s.Deaths))
	for i := range s.Deaths {
		d := &s.Deaths[i]
		late, labels := "-", words.Printable(words.Labels(d.Story.Labels))
		numbers := [2]float64{float64(d.EndedAt.UnixNano()), -1}
		if d.Cause == session.CauseExpired {
			late, numbers[1] = short(d.Story.Late), float64(d.Story.Late)
		}
		all[i] = row{
			id: d.ID, numbers: numbers, labels: d.Story.Labels,
			cells: []string{
				short(max(0, s.At.Sub(d.EndedAt))), d.ID.String(), d.Cause.String(), node(d.Owner), late, labels,
			},
		}
	}
	return all
}

package top

import (
	"slices"
	"time"
	"unicode"
	"unicode/utf8"

	"holdfast/session"
)

// Act is what the program must do after a key.
type Act struct {
	Quit bool
	// Fetch: get a sample at once.
	Fetch bool
	// Explain is a session to be explained; 0 for none.
	Explain session.ID
	// NewInterval: the interval between samples has changed.
	NewInterval bool
}

// intervals are the times between two samples that keys choose from.
func intervals() []time.Duration {
	return []time.Duration{
		500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	}
}

// maxFilter bounds the filter's length.
const maxFilter = 200

// Key handles a key by its name, such as "q", "enter" or "ctrl+c"; text is the typed text, empty for a key that types
// nothing.
func (m *Model) Key(name, text string) Act {
	switch {
	case name == "ctrl+c":
		return Act{Quit: true}
	case m.typing:
		return m.typed(name, text)
	case m.helping:
		m.helping = false
		return Act{}
	case m.detail != nil:
		return m.inDetail(name)
	default:
		return m.inList(name)
	}
}

// typed handles a key while the user types a filter.
func (m *Model) typed(name, text string) Act {
	switch name {
	case "enter":
		m.typing, m.at = false, 0
		return Act{Fetch: true}
	case "esc":
		m.typing, m.filter, m.at = false, "", 0
		return Act{Fetch: true}
	case "backspace":
		_, size := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-size]
	case "ctrl+u":
		m.filter = ""
	default:
		for _, r := range text {
			if unicode.IsPrint(r) && len(m.filter) < maxFilter {
				m.filter += string(r)
			}
		}
	}
	m.at = 0
	return Act{}
}

// inDetail handles a key while one session is shown.
func (m *Model) inDetail(name string) Act {
	switch name {
	case "esc", "enter", "backspace", "left":
		m.detail = nil
	case "q":
		return Act{Quit: true}
	case "up", "k":
		m.detail.top = max(0, m.detail.top-1)
	case "down", "j":
		m.detail.top++ // drawing bounds it
	case "r":
		return Act{Explain: m.detail.id}
	}
	return Act{}
}

// inList handles a key while a section is shown.
func (m *Model) inList(name string) Act {
	switch name {
	case "q":
		return Act{Quit: true}
	case "1", "2", "3":
		m.turnTo(Section(name[0] - '1'))
	case "tab", "right":
		m.turnTo((m.section + 1) % Section(sections))
	case "shift+tab", "left":
		m.turnTo((m.section + Section(sections) - 1) % Section(sections))
	case "s":
		m.sorted[m.section] = (m.sorted[m.section] + 1) % len(orders(m.section))
	case "R":
		m.reversed = !m.reversed
	case "/":
		m.typing = true
	case "esc":
		m.filter, m.at = "", 0
		return Act{Fetch: true}
	case "p", "space":
		m.paused = !m.paused
		return Act{Fetch: !m.paused}
	case "r":
		return Act{Fetch: true}
	case "+", "-":
		m.change(name == "+")
		return Act{NewInterval: true}
	case "?", "h":
		m.helping = true
	case "enter":
		return m.open()
	default:
		m.move(name)
	}
	return Act{}
}

func (m *Model) turnTo(s Section) { m.section, m.at = s, 0 }

// change makes samples come more often, or less.
//
//nolint:revive // flag-parameter: one of two keys
func (m *Model) change(faster bool) {
	all := intervals()
	at, is := slices.BinarySearch(all, m.every)
	switch {
	case faster:
		at--
	case is:
		at++
	}
	next := all[min(max(0, at), len(all)-1)]
	if faster == (next < m.every) {
		m.every = next
	}
}

// move moves the cursor.
func (m *Model) move(name string) {
	last := max(0, len(m.rows())-1)
	page := max(1, m.listHeight())
	steps := map[string]int{
		"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "home": -last, "g": -last,
		"end": last, "G": last,
	}
	m.at = min(max(0, m.at+steps[name]), last)
}

// open shows the line that the cursor is on.
func (m *Model) open() Act {
	all := m.rows()
	if len(all) == 0 {
		return Act{}
	}
	one := all[min(m.at, len(all)-1)]
	if one.id == 0 {
		m.detail = &detail{title: "Connection from " + one.cells[0], lines: one.details}
		return Act{}
	}
	m.detail = &detail{id: one.id, title: "Session " + one.id.String(), lines: []string{"asking the cluster"}}
	return Act{Explain: one.id}
}

// Explained adds an explanation of a session, unless the user has left the session.
func (m *Model) Explained(id session.ID, sentences []string, err error) {
	if m.detail == nil || m.detail.id != id {
		return
	}
	m.detail.lines = sentences
	if err != nil {
		m.detail.lines = []string{err.Error()}
	}
}

package top

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"charm.land/lipgloss/v2"

	"holdfast/client"
	"holdfast/session"
)

// clean takes the styles out of a picture.
func clean(picture string) string {
	var b strings.Builder
	lipgloss.Fprint(&b, picture)
	return b.String()
}

// noon is when the first sample is taken.
var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// sample is a cluster of three nodes some seconds after noon, with rates of ten opens, one end and a hundred entries a
// second.
func sample(seconds uint64) Sample {
	at := noon.Add(time.Duration(seconds) * time.Second)
	s := Sample{At: at}
	for n := range 3 {
		st := client.Status{
			Node: session.Node(n + 1), ClusterID: "prod", Role: "follower", Term: 7, Leader: 2, Ready: true,
			AppliedIndex: 1000 + 100*seconds, Global: 12_345, MaxSessions: 2_000_000, TreeEntries: 1200, Watches: 41,
			Turnover: session.Turnover{Opens: 10 * seconds, Expiries: seconds},
		}
		if n == 1 {
			st.Role = "leader"
		}
		s.Nodes = append(s.Nodes, Node{
			Endpoint: fmt.Sprintf("n%d:7400", n+1), Status: st, At: at, RoundTrip: 1230 * time.Microsecond,
		})
	}
	for i := range 40 {
		s.Expiring = append(s.Expiring, session.Listed{
			Session: session.Session{
				ID:   session.ID(1000 + i),
				Spec: session.Spec{Timeout: 10 * time.Second, Labels: session.Labels{{Key: "service", Value: fmt.Sprintf("web%02d", i)}}}, Owner: session.Node(1 + i%3),
				OpenedAt: at.Add(-time.Duration(100-i) * time.Hour),
			},
			Remaining: time.Duration(40-i) * 100 * time.Millisecond,
		})
	}
	s.Deaths = []session.Certificate{{
		ID: 77, Cause: session.CauseExpired, Owner: 3, EndedAt: at.Add(-time.Minute),
		Story: session.Story{
			Spec: session.Spec{Timeout: 10 * time.Second}, Late: 12 * time.Millisecond,
			OpenedAt: noon,
		},
	}, {
		ID: 78, Cause: session.CauseKilled, Owner: 1, EndedAt: at.Add(-time.Hour),
		Story: session.Story{Spec: session.Spec{Timeout: 10 * time.Second}, OpenedAt: noon, By: "ops"},
	}}
	s.ClientsKnown = true
	s.Clients = []Connection{
		{1, client.ClientConnection{
			Address: "10.0.0.1:4000", Protocol: "grpc", Rate: 3, Sessions: 500, Name: "billing", Since: noon,
		}},
		{2, client.ClientConnection{
			Address: "10.0.0.2:4000", Protocol: "zookeeper", Rate: 1200.4, Sessions: 1, Since: noon, Name: "cn:web",
			Verified: true, Principals: []string{"ip:10.0.0.2"},
		}},
	}
	return s
}

// begun is a model with two samples.
func begun() *Model {
	m := New(2 * time.Second)
	m.Add(sample(0))
	m.Add(sample(2))
	return m
}

// line returns the first line with a text.
func line(t *testing.T, picture, text string) string {
	t.Helper()
	lines := strings.Split(clean(picture), "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, text) })
	if at < 0 {
		t.Fatalf("no line with %q in\n%s", text, clean(picture))
	}
	return lines[at]
}

// A picture is never larger than its terminal, whatever it shows.
func TestPicturesFit(t *testing.T) {
	large := begun()
	odd := sample(4)
	odd.Missing[Sessions] = strings.Repeat("very long ", 50)
	odd.Nodes[0] = Node{Endpoint: strings.Repeat("n", 200), Silent: "refused"}
	for i := range odd.Expiring {
		odd.Expiring[i].Session.Labels = session.Labels{{Key: strings.Repeat("世界", 60), Value: "\x1b[2J\n\t\x9b31m"}}
	}
	wide := begun()
	wide.Add(odd)
	for _, m := range []*Model{New(time.Second), large, wide} {
		for _, size := range [][2]int{{80, 24}, {200, 60}, {40, 10}} {
			m.Resize(size[0], size[1])
			for _, keys := range []string{"", "2", "3", "?", "x", "1", "/", "a", "\r", "e", "\x1b", "\r", "jjjjjj", "\x1b"} {
				press(m, keys)
				lines := strings.Split(m.View(), "\n")
				if len(lines) != size[1] {
					t.Errorf("%d lines in a terminal of %d after %q", len(lines), size[1], keys)
				}
				for _, l := range lines {
					if w := lipgloss.Width(l); w > size[0] {
						t.Errorf("%d columns in a terminal of %d: %q", w, size[0], clean(l))
					}
					if strings.ContainsFunc(clean(l), unicode.IsControl) {
						t.Errorf("a control character reaches the terminal: %q", clean(l))
					}
				}
			}
		}
	}
}

// press presses keys.
func press(m *Model, keys string) (last Act) {
	for _, k := range keys {
		switch k {
		case '\r':
			last = m.Key("enter", "")
		case '\x1b':
			last = m.Key("esc", "")
		case '\b':
			last = m.Key("backspace", "")
		default:
			last = m.Key(string(k), string(k))
		}
	}
	return last
}

// The most important facts are on the first picture of 80 x 24.
func TestFirstPicture(t *testing.T) {
	picture := begun().View()
	for text, want := range map[string]string{
		"holdfast top": "prod  node 2 leads term 7", "sessions, 0 local": "12,345 of 2,000,000", "opens": " 10.0/s",
		"expiries": "1.0/s", "tree writes": "100/s", "leader": "1.23ms", "web39": "100ms", "q quit": "1-3 section",
	} {
		if got := line(t, picture, text); !strings.Contains(got, want) {
			t.Errorf("%q has no %q", got, want)
		}
	}
	if strings.Contains(clean(picture), "! ") {
		t.Errorf("an alarm, and nothing is wrong:\n%s", clean(picture))
	}
	if l := line(t, picture, "q quit"); !strings.HasSuffix(l, "q quit") {
		t.Errorf("the keys do not fit: %q", l)
	}
}

// Problems stand above all, the first of them in words.
func TestAlarms(t *testing.T) {
	m := begun()
	s := sample(4)
	s.Nodes[0] = Node{Endpoint: "n1:7400", Silent: "connection refused"}
	s.Nodes[1].Status.Freezing = &client.Freezing{Left: 90 * time.Second}
	s.Nodes[2].Status.Ready, s.Nodes[2].Status.NotReadyBecause = false, "no leader"
	m.Add(s)
	if got := line(t, m.View(), "! "); got != "! n1:7400: connection refused  (and 2 more)" {
		t.Errorf("alarm %q", got)
	}
	if got := line(t, m.View(), "n1:7400  "); !strings.Contains(got, "silent") {
		t.Errorf("the node's line is %q", got)
	}
	if got := m.alarms(); !slices.Contains(got, "frozen: nothing expires for 1m30s more") ||
		!slices.Contains(got, "node 3 is not ready: no leader") {
		t.Errorf("alarms %q", got)
	}
	for i := range s.Nodes {
		s.Nodes[i].Silent = "gone"
	}
	m.Add(s)
	if got := line(t, m.View(), "holdfast top"); !strings.Contains(got, "no node answers") {
		t.Errorf("without nodes: %q", got)
	}
}

// firsts returns the first cells of the section's lines.
func firsts(m *Model) (all []string) {
	for _, r := range m.rows() {
		all = append(all, r.cells[0])
	}
	return all
}

func TestSorting(t *testing.T) {
	m := begun()
	id := func(n uint64) string { return session.ID(n).String() }
	for _, c := range []struct{ keys, first, title string }{
		{"", id(1039), "by time left"},
		{"s", id(1000), "by age"},
		{"R", id(1039), "by age, reversed"},
		{"sR", id(1000), "by id"},
		{"s", id(1039), "by time left"},
		{"2", "10.0.0.2:4000", "by requests"},
		{"s", "10.0.0.1:4000", "by sessions"},
	} {
		press(m, c.keys)
		if got := firsts(m); got[0] != c.first {
			t.Errorf("after %q the first is %s, want %s", c.keys, got[0], c.first)
		}
		if got := line(t, m.View(), "1 expiring"); !strings.HasSuffix(strings.TrimRight(got, " "), c.title) {
			t.Errorf("after %q the title is %q", c.keys, got)
		}
	}
}

// A text filters the shown lines; a label also filters at the cluster, once it is typed.
func TestFilter(t *testing.T) {
	m := begun()
	press(m, "/WEB1")
	if n := len(m.rows()); n != 10 {
		t.Errorf("%d lines while %q is typed, want 10", n, m.filter)
	}
	press(m, "7\b\b")
	if n := len(m.rows()); n != 40 {
		t.Errorf("%d lines with %q, want all 40", n, m.filter)
	}
	press(m, "\x1b/service=web07")
	if got := m.Query().Labels; got != nil {
		t.Errorf("asked for %v while it is typed", got)
	}
	if act := press(m, "\r"); !act.Fetch {
		t.Error("the cluster is not asked at once")
	}
	if got := m.Query().Labels; len(got) != 1 || got["service"] != "web07" {
		t.Errorf("asked for %v", got)
	}
	if got := firsts(m); len(got) != 1 || got[0] != session.ID(1007).String() {
		t.Errorf("shown are %v", got)
	}
	press(m, "/\b\b\b\b\b\r") // any value
	if got := m.Query().Labels; got["service"] != "" || len(m.rows()) != 40 {
		t.Errorf("with %q asked for %v, shown %d", m.filter, got, len(m.rows()))
	}
	press(m, "/nothing\r")
	if got := clean(m.View()); !strings.Contains(got, "nothing matches the filter") {
		t.Errorf("no word of it:\n%s", got)
	}
	press(m, "\x1b/"+strings.Repeat("x", 3*maxFilter))
	if len(m.filter) != maxFilter {
		t.Errorf("a filter of %d characters", len(m.filter))
	}
}

func TestDetail(t *testing.T) {
	m := begun()
	press(m, "jj")
	act := press(m, "\r")
	if act.Explain != 1037 {
		t.Fatalf("asked to explain %v, want %v", act.Explain, session.ID(1037))
	}
	m.Explained(5, []string{"another"}, nil)
	if got := clean(m.View()); !strings.Contains(got, "asking the cluster") || strings.Contains(got, "another") {
		t.Errorf("before the answer:\n%s", got)
	}
	m.Explained(1037, []string{"It lives.", strings.Repeat("long ", 100)}, nil)
	if got := clean(m.View()); !strings.Contains(got, "- It lives.") || !strings.Contains(got, session.ID(1037).String()) {
		t.Errorf("the answer:\n%s", got)
	}
	press(m, "jjjjjjjjjjjjjjjjjj")
	if got := clean(m.View()); strings.Contains(got, "It lives.") == (m.detail.top > 2) {
		t.Errorf("scrolled by %d:\n%s", m.detail.top, got)
	}
	if act := press(m, "r"); act.Explain != 1037 {
		t.Errorf("asked again for %v", act.Explain)
	}
	m.Explained(1037, nil, errors.New("no leader"))
	if got := clean(m.View()); !strings.Contains(got, "- no leader") {
		t.Errorf("an error:\n%s", got)
	}
	press(m, "\x1b2\r")
	if got := clean(m.View()); !strings.Contains(got, "speaks zookeeper with node 2") ||
		!strings.Contains(got, "cn:web. For access lists it is: ip:10.0.0.2") {
		t.Errorf("a connection:\n%s", got)
	}
	if act := press(m, "q"); !act.Quit {
		t.Error("q does not quit")
	}
}

// The cursor stays on the screen and among the lines.
func TestCursor(t *testing.T) {
	m := begun()
	m.Key("end", "")
	if got := clean(m.View()); !strings.Contains(got, "web00") || strings.Contains(got, "web39") {
		t.Errorf("at the end:\n%s", got)
	}
	few := sample(4)
	few.Expiring = few.Expiring[:2]
	m.Add(few)
	if m.at != 1 {
		t.Errorf("the cursor is on line %d of 2", m.at)
	}
	m.Key("pgup", "")
	if m.at != 0 {
		t.Errorf("the cursor is on line %d, want the first", m.at)
	}
	press(m, "j")
	more := sample(6) // 38 come before the two
	m.Add(more)
	if act := press(m, "\r"); act.Explain != more.Expiring[0].Session.ID {
		t.Errorf("the cursor went to %v, and was on %v", act.Explain, more.Expiring[0].Session.ID)
	}
	press(m, "\x1b")
	few.Expiring = nil
	m.Add(few)
	press(m, "jj\r")
	if m.detail != nil || m.at != 0 {
		t.Error("something was opened, and there is nothing")
	}
}

// The picture stays while it is paused; the refresh rate is bounded.
func TestPauseAndSpeed(t *testing.T) {
	m := begun()
	if act := press(m, "p"); act.Fetch || !m.Paused() || !strings.Contains(clean(m.View()), "PAUSED") {
		t.Error("not paused")
	}
	if act := press(m, "p"); !act.Fetch || m.Paused() {
		t.Error("it does not go on at once")
	}
	for _, c := range []struct {
		key  string
		want time.Duration
	}{{"+", time.Second}, {"+", 500 * time.Millisecond}, {"+", 500 * time.Millisecond}, {"-", time.Second}} {
		if act := press(m, c.key); !act.NewInterval || m.Every() != c.want {
			t.Errorf("after %s every %v, want %v", c.key, m.Every(), c.want)
		}
	}
	press(m, "----------")
	if m.Every() != 30*time.Second {
		t.Errorf("every %v at most", m.Every())
	}
	odd := New(3 * time.Second)
	if press(odd, "-"); odd.Every() != 5*time.Second {
		t.Errorf("slower than 3s is %v", odd.Every())
	}
	if press(odd, "+"); odd.Every() != 2*time.Second {
		t.Errorf("faster than 5s is %v", odd.Every())
	}
	for every, key := range map[time.Duration]string{time.Minute: "-", 100 * time.Millisecond: "+"} {
		outside := New(every)
		if press(outside, key); outside.Every() != every {
			t.Errorf("after %s every %v, and it was %v", key, outside.Every(), every)
		}
	}
}

func TestOnce(t *testing.T) {
	m := begun()
	m.Resize(160, 0)
	got := clean(m.Once(5))
	for _, want := range []string{
		"prod", "web39", "10.0.0.2:4000", "billing (unverified)", "expired", "killed", "12ms",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "web30") || strings.Contains(got, "  \n") || strings.Contains(got, "quit") {
		t.Errorf("too much in\n%s", got)
	}
}

// Without an answer of any node, the list of connections is not known.
func TestClientsAreUnknown(t *testing.T) {
	m := New(time.Second)
	m.Add(Sample{At: noon})
	press(m, "2")
	if got := clean(m.View()); !strings.Contains(got, "no node has listed its connections") {
		t.Errorf("no word of it:\n%s", got)
	}
}

func TestShortAndNumbers(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "-", 0: "0ms", 999 * time.Millisecond: "999ms", 1500 * time.Millisecond: "1.5s", 61 * time.Second: "1m01s",
		90 * time.Minute: "1h30m", 300 * time.Hour: "12d",
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[uint64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567"} {
		if got := number(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

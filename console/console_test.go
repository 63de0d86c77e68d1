package console

import (
	"context"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	dto "github.com/prometheus/client_model/go"

	"holdfast/client"
	"holdfast/node"
	"holdfast/session"
	"holdfast/test/bubble"
)

func TestTheRingKeepsAnHour(t *testing.T) {
	var r ring
	begin := time.Unix(1000, 0)
	for i := range 2*ringSamples + 7 {
		r.add(sample{at: begin.Add(time.Duration(i) * sampleInterval)})
		all := r.all()
		if want := min(i+1, ringSamples); len(all) != want {
			t.Fatalf("after %d samples: %d, want %d", i+1, len(all), want)
		}
		if last := all[len(all)-1].at; !last.Equal(begin.Add(time.Duration(i) * sampleInterval)) {
			t.Fatalf("after %d samples the newest is of %v", i+1, last)
		}
		if !slices.IsSortedFunc(all, func(a, b sample) int { return a.at.Compare(b.at) }) {
			t.Fatalf("after %d samples they are out of order", i+1)
		}
	}
	if span := r.all()[ringSamples-1].at.Sub(r.all()[0].at); span != time.Hour-sampleInterval {
		t.Errorf("a full ring spans %v", span)
	}
}

func histogram(counts ...uint64) *dto.Histogram {
	h := &dto.Histogram{SampleCount: new(uint64)}
	for i, n := range counts {
		*h.SampleCount += n
		h.Bucket = append(h.Bucket, &dto.Bucket{
			UpperBound: new(float64(int(1) << i)), CumulativeCount: new(*h.SampleCount),
		})
	}
	return h
}

func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		name      string
		q         float64
		now, then *dto.Histogram
		want      float64
	}{
		{"nothing", 0.99, histogram(), nil, math.NaN()},
		{"nothing new", 0.99, histogram(5, 5), histogram(5, 5), math.NaN()},
		{"the middle of a bucket", 0.5, histogram(0, 0, 10), nil, 3},
		{"the first bucket", 0.5, histogram(10), nil, 0.5},
		{"only what is new counts", 0.99, histogram(1000, 0, 100), histogram(1000, 0, 0), 2 + 2*0.99},
		{"the least", 0.01, histogram(0, 100), nil, 1.01},
	} {
		if got := quantile(tt.q, tt.now, tt.then); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) &&
			math.Abs(got-tt.want) > 1e-9 || math.IsNaN(got) != math.IsNaN(tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A stream resumes after the event that it had last, whatever came meanwhile, and is told when that is not possible.
func TestNewsResume(t *testing.T) {
	n := newNews("p")
	for i := range 3 * newsKept {
		n.tell("log", strings.Repeat("x", i%3))
		kept := n.after(uint64(max(0, i-100)))
		if i > newsKept && (!kept.complete || len(kept.events) != 101) {
			t.Fatalf("after %d events: %d of the newest 101, complete %v", i+1, len(kept.events), kept.complete)
		}
		for j, e := range kept.events {
			if e.number != uint64(max(0, i-100)+j+1) {
				t.Fatalf("event %d has the number %d", j, e.number)
			}
		}
	}
	if n.after(1).complete || n.after(n.newest()+1).complete {
		t.Error("events that are gone, or have not been, are said to be told")
	}
	if number, ok := n.number(n.id(77)); number != 77 || !ok {
		t.Errorf("the id of 77 reads as %d, %v", number, ok)
	}
	for _, id := range []string{"q-77", "p-", "p-x", "77", ""} {
		if _, ok := n.number(id); ok {
			t.Errorf("id %q is taken", id)
		}
	}
	more := n.after(n.newest()).more
	n.end()
	select {
	case <-more:
	default:
		t.Error("the end wakes nobody")
	}
	n.tell("log", "")
	if !n.after(n.newest()).ended {
		t.Error("the stream has not ended")
	}
}

// A stream tells what comes, ends after its life, so that the node looks again who asks, and goes on where it ended.
func TestStreamsEndAndResume(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &Console{news: newNews("p")}
		stream := func(id string) string {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/ui/events", nil)
			r.Header.Set("Last-Event-ID", id)
			began := time.Now()
			c.events(w, r)
			if life := time.Since(began); life < streamLife || life > streamLife+streamQuiet {
				t.Errorf("the stream lives %v, want %v", life, streamLife)
			}
			return w.Body.String()
		}
		go func() {
			time.Sleep(time.Minute)
			c.news.tell("log", `{"index":1}`)
			time.Sleep(streamLife)
			c.news.tell("log", `{"index":2}`)
		}()
		first := stream("")
		if !strings.Contains(first, "id: p-1\nevent: log\n") || strings.Contains(first, "p-2") ||
			!strings.Contains(first, "event: quiet") {
			t.Errorf("the first stream has %q", first)
		}
		second := stream("p-1")
		if strings.Contains(second, "p-1") || !strings.Contains(second, `id: p-2`) || strings.Contains(second, "anew") {
			t.Errorf("the second stream has %q", second)
		}
		if other := stream("q-1"); !strings.Contains(other, "event: anew") {
			t.Errorf("after a restart of the node: %q", other)
		}
	})
}

// A request that is under way when the node stops gets a moment, and one that comes later none more than that. Without
// an end it would hold up the stop for as long as a page may wait.
func TestRequestsEndWhenTheNodeStops(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New(node.ConsoleHost{
			Logger: hclog.NewNullLogger(), Address: "n1:7400",
			Dialer: func(*http.Request) func(context.Context, string) (net.Conn, error) {
				return func(ctx context.Context, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
			},
		})
		defer c.callers.close()
		ask := func() (took time.Duration) {
			w, began := httptest.NewRecorder(), time.Now()
			c.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ui/sessions", nil))
			if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), errStopping.Error()) {
				t.Errorf("got %d %s", w.Code, w.Body)
			}
			return time.Since(began)
		}
		const under = 100 * time.Millisecond
		time.AfterFunc(under, c.Stop)
		if took := ask(); took != under+stopGrace {
			t.Errorf("the request under way took %v", took)
		}
		if took := ask(); took != 0 {
			t.Errorf("the request after the end took %v", took)
		}
	})
}

func TestDataIsShownAsWhatItCanBe(t *testing.T) {
	for _, tt := range []struct {
		data, wanted, form, shown string
		forms                     []string
	}{
		{"plain", "", "text", "plain", []string{"text", "hex"}},
		{"plain", "json", "text", "plain", []string{"text", "hex"}},
		{`{"a":1}`, "json", "json", "{\n  \"a\": 1\n}", []string{"text", "json", "hex"}},
		{`{"a":1}`, "hex", "hex", "7b 22 61 22 3a 31 7d\n", []string{"text", "json", "hex"}},
		{"\x00a", "text", "hex", "00 61\n", []string{"hex"}},
		{"\x1b[2J", "text", "hex", "1b 5b 32 4a\n", []string{"hex"}},
		{"", "", "text", "", []string{"text", "hex"}},
	} {
		var e entry
		e.show([]byte(tt.data), tt.wanted)
		if e.Form != tt.form || e.Data != tt.shown || !slices.Equal(e.Forms, tt.forms) || e.Cut {
			t.Errorf("%q as %q: got %q %q %v", tt.data, tt.wanted, e.Form, e.Data, e.Forms)
		}
	}
	var e entry
	e.show([]byte(strings.Repeat("é", shownBytes)), "")
	if !e.Cut || e.Data != strings.Repeat("é", shownBytes/2) {
		t.Errorf("long data: cut %v, %d bytes shown", e.Cut, len(e.Data))
	}
}

// A spreadsheet takes no text of a stranger for a formula.
func TestCells(t *testing.T) {
	for text, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "x=1": "x=1", "-": "-", "": "",
	} {
		if got := cell(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestCrumbs(t *testing.T) {
	if got := crumbs("/"); len(got) != 1 || got[0].Path != "/" {
		t.Errorf("of the root: %v", got)
	}
	want := []crumb{{"/", "/"}, {"a", "/a"}, {"bc", "/a/bc"}}
	if got := crumbs("/a/bc"); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What the cluster could do without a member depends on who answers, not on who is a member.
func TestWithout(t *testing.T) {
	k := cluster{}
	for i := range 5 {
		m := member{Member: client.Member{Node: session.Node(i + 1), Voter: true}}
		m.Ready = true
		if i == 0 {
			m.Role, m.Term = "leader", 3
		}
		if i > 2 {
			m.Silent = "it does not answer"
		}
		k.Members = append(k.Members, m)
	}
	k.Members = append(k.Members, member{Member: client.Member{Node: 6}})
	k.judge()
	for i, want := range []string{
		"nothing would be written", "nothing", "nothing", "just enough", "just enough", "does not vote",
	} {
		if got := k.Members[i].Without; !strings.Contains(got, want) {
			t.Errorf("without node %d: %q, want %q", i+1, got, want)
		}
	}
	if k.Voters != 5 || k.Quorum != 3 || k.Leader == nil || len(k.Alarms) != 3 {
		t.Errorf("voters %d, quorum %d, leader %v, alarms %q", k.Voters, k.Quorum, k.Leader, k.Alarms)
	}
}

// The questions about members count as the leader does (J4): not those that are leaving or losing their vote, and those
// that are being drained as missing. Where this caller may not ask a voter, they leave the judgement to the leader.
func TestWhatAChangeOfMembersLeaves(t *testing.T) {
	five := func(change func(all []member)) *cluster {
		k := &cluster{}
		for i := range 5 {
			k.Members = append(k.Members, member{Member: client.Member{Node: session.Node(i + 1), Voter: true}})
		}
		if change != nil {
			change(k.Members)
		}
		return k
	}
	for name, c := range map[string]struct {
		change        func(all []member)
		without, with session.Node
		want          string
	}{
		"one goes":  {nil, 3, 0, "Then 4 members vote, and 3 must agree. 4 would remain: 1 could be lost."},
		"one comes": {nil, 0, 9, "Then 6 members vote, and 4 must agree. 6 would remain: 2 could be lost."},
		"an observer gets its vote": {
			func(all []member) { all[4].Voter, all[4].Observer = false, true }, 0, 5,
			"Then 5 members vote, and 3 must agree. 5 would remain: 2 could be lost.",
		},
		"one is drained, and one does not answer": {
			func(all []member) { all[0].Drain, all[1].Silent = &client.Drain{}, "it does not answer" }, 3, 0,
			"Then 4 members vote, and 3 must agree. But node 1 is being drained, node 2 does not answer. 2 would remain, " +
				"which is no quorum: the leader refuses that.",
		},
		"two are leaving": {
			func(all []member) { all[3].Leaving, all[4].Leaving = true, true }, 3, 0,
			"Then 2 members vote, and 2 must agree. 2 would remain, just enough: the next loss would stop the cluster.",
		},
		"one is losing its vote": {
			func(all []member) { all[4].Observer = true }, 3, 0,
			"Then 3 members vote, and 2 must agree. 3 would remain: 1 could be lost.",
		},
		"one may not be asked": {
			func(all []member) { all[1].Silent, all[1].Unseen = "it does not know who asks", true }, 3, 0,
			"Then 4 members vote, and 3 must agree. Not all of them are shown here: the leader, which hears them, decides " +
				"whether enough remain.",
		},
	} {
		k := five(c.change)
		if got := k.then(k.ballot(c.without, c.with)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if k.judge(); k.unseen() != strings.Contains(k.Members[0].Without, "cannot be said here") {
			t.Errorf("%s: %q", name, k.Members[0].Without)
		}
	}
}

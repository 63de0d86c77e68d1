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
	"holdfast/node/ports"
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

// A stream resumes after its last event, and learns when that is not possible.
func TestEventLogResumes(t *testing.T) {
	n := newEventLog("p")
	for i := range 3 * maxEvents {
		n.publish("log", strings.Repeat("x", i%3))
		kept := n.after(uint64(max(0, i-100)))
		if i > maxEvents && (!kept.complete || len(kept.events) != 101) {
			t.Fatalf("after %d events: %d of the newest 101, complete %v", i+1, len(kept.events), kept.complete)
		}
		for j, e := range kept.events {
			if e.number != uint64(max(0, i-100)+j+1) {
				t.Fatalf("event %d has the number %d", j, e.number)
			}
		}
	}
	if n.after(1).complete || n.after(n.newest()+1).complete {
		t.Error("a batch of dropped or future events is complete")
	}
	if number, ok := n.number(n.id(77)); number != 77 || !ok {
		t.Errorf("the id of 77 reads as %d, %v", number, ok)
	}
	for _, id := range []string{"q-77", "p-", "p-x", "77", ""} {
		if _, ok := n.number(id); ok {
			t.Errorf("id %q is accepted", id)
		}
	}
	more := n.after(n.newest()).changed
	n.close()
	select {
	case <-more:
	default:
		t.Error("close wakes no stream")
	}
	n.publish("log", "")
	if !n.after(n.newest()).closed {
		t.Error("the stream has not ended")
	}
}

// A stream delivers events, ends after streamLifetime, so that the node authorizes the caller again, and resumes where
// it ended.
func TestStreamsEndAndResume(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := &Console{events: newEventLog("p")}
		stream := func(id string) string {
			w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/ui/events", nil)
			r.Header.Set("Last-Event-ID", id)
			began := time.Now()
			c.serveEvents(w, r)
			if life := time.Since(began); life < streamLifetime || life > streamLifetime+heartbeatInterval {
				t.Errorf("the stream lives %v, want %v", life, streamLifetime)
			}
			return w.Body.String()
		}
		go func() {
			time.Sleep(time.Minute)
			c.events.publish("log", `{"index":1}`)
			time.Sleep(streamLifetime)
			c.events.publish("log", `{"index":2}`)
		}()
		first := stream("")
		if !strings.Contains(first, "id: p-1\nevent: log\n") || strings.Contains(first, "p-2") ||
			!strings.Contains(first, "event: heartbeat") {
			t.Errorf("the first stream has %q", first)
		}
		second := stream("p-1")
		if strings.Contains(second, "p-1") || !strings.Contains(second, `id: p-2`) || strings.Contains(second, "reload") {
			t.Errorf("the second stream has %q", second)
		}
		if other := stream("q-1"); !strings.Contains(other, "event: reload") {
			t.Errorf("after a restart of the node: %q", other)
		}
	})
}

// A pending request has stopGrace when the node stops, and a later request none. Otherwise it would delay the stop for
// as long as a page may wait.
func TestRequestsEndWhenTheNodeStops(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := New(ports.ConsoleHost{
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
			t.Errorf("the pending request took %v", took)
		}
		if took := ask(); took != 0 {
			t.Errorf("the request after the stop took %v", took)
		}
	})
}

func TestDataIsShownInItsPossibleForms(t *testing.T) {
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
		if e.Format != tt.form || e.Data != tt.shown || !slices.Equal(e.Formats, tt.forms) || e.Truncated {
			t.Errorf("%q as %q: got %q %q %v", tt.data, tt.wanted, e.Format, e.Data, e.Formats)
		}
	}
	var e entry
	e.show([]byte(strings.Repeat("é", shownBytes)), "")
	if !e.Truncated || e.Data != strings.Repeat("é", shownBytes/2) {
		t.Errorf("long data: cut %v, %d bytes shown", e.Truncated, len(e.Data))
	}
}

// A spreadsheet reads no foreign text as a formula.
func TestCells(t *testing.T) {
	for text, want := range map[string]string{
		"=1+1": "'=1+1", "+1": "'+1", "-1": "'-1", "@x": "'@x", "\tx": "'\tx", "x=1": "x=1", "-": "-", "": "",
	} {
		if got := csvCell(text); got != want {
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

// The quorum without a member depends on the voters that answer, not on the membership.
func TestIfItFails(t *testing.T) {
	k := cluster{}
	for i := range 5 {
		m := member{Member: client.Member{Node: session.Node(i + 1), Voter: true}}
		m.Ready = true
		if i == 0 {
			m.Role, m.Term = "leader", 3
		}
		if i > 2 {
			m.NoStatus = "unreachable"
		}
		k.Members = append(k.Members, m)
	}
	k.Members = append(k.Members, member{Member: client.Member{Node: 6}})
	k.evaluate()
	for i, want := range []string{
		"no writes", "no writes", "no writes", "exactly the quorum", "exactly the quorum", "no vote",
	} {
		if got := k.Members[i].IfItFails; !strings.Contains(got, want) {
			t.Errorf("without node %d: %q, want %q", i+1, got, want)
		}
	}
	if k.Voters != 5 || k.Quorum != 3 || k.Leader == nil || len(k.Alarms) != 3 {
		t.Errorf("voters %d, quorum %d, leader %v, alarms %q", k.Voters, k.Quorum, k.Leader, k.Alarms)
	}
}

// Actions on members count as the leader does (J4 quorum is kept): voters that are being removed or demoted do not
// count, and draining voters count as missing. If the caller may not read the status of a voter, the leader decides.
func TestQuorumAfterAChange(t *testing.T) {
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
		"one goes":  {nil, 3, 0, "Afterwards: 4 voters, quorum 3. Available: 4. The cluster tolerates 1 failure."},
		"one comes": {nil, 0, 9, "Afterwards: 6 voters, quorum 4. Available: 6. The cluster tolerates 2 failures."},
		"an observer gets its vote": {
			func(all []member) { all[4].Voter, all[4].Observer = false, true }, 0, 5,
			"Afterwards: 5 voters, quorum 3. Available: 5. The cluster tolerates 2 failures.",
		},
		"one is drained, and one does not answer": {
			func(all []member) { all[0].Drain, all[1].NoStatus = &client.Drain{}, "unreachable" }, 3, 0,
			"Afterwards: 4 voters, quorum 3. Unavailable: node 1 is draining, node 2 is unreachable. Available: 2, less " +
				"than the quorum. The leader will refuse.",
		},
		"two are leaving": {
			func(all []member) { all[3].Leaving, all[4].Leaving = true, true }, 3, 0,
			"Afterwards: 2 voters, quorum 2. Available: 2, exactly the quorum. One more failure stops the cluster.",
		},
		"one is losing its vote": {
			func(all []member) { all[4].Observer = true }, 3, 0,
			"Afterwards: 3 voters, quorum 2. Available: 3. The cluster tolerates 1 failure.",
		},
		"one may not be asked": {
			func(all []member) { all[1].NoStatus, all[1].Inaccessible = "not authenticated", true }, 3, 0,
			"Afterwards: 4 voters, quorum 3. Some voters show no status here: the leader decides whether enough are " +
				"available.",
		},
	} {
		k := five(c.change)
		if got := k.describeQuorum(k.ballot(c.without, c.with)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if k.evaluate(); k.hasInaccessibleVoter() != strings.Contains(k.Members[0].IfItFails, "unknown: no status") {
			t.Errorf("%s: %q", name, k.Members[0].IfItFails)
		}
	}
}

package whole_test

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/whole"
	"holdfast/tree"
)

// Ordinary use of a cluster that grows old. A year of a thousand sessions an hour would take days of a processor, so
// the test uses a session every half hour, or usesAPeriod, with correspondingly smaller bounds. Timeouts and intervals
// are long, because a round costs the same however many sessions there are.
const (
	usesAPeriod = 45
	agePause    = 30 * time.Minute
	agePeriods  = 8
	ageStates   = session.MinCapacityBytes
	ageRound    = 20 * time.Second
	ageTimeout  = 10 * time.Minute
	ageTTL      = 20 * time.Minute
	ageKeepers  = 20
	ageLocks    = 50
	ageVariable = "HOLDFAST_AGE_DAYS"
)

// TestAgeing has a cluster grow old: sessions, locks and entries come and go, clients vanish, ids are claimed, nodes
// are started again, and each in turn is replaced by a new one. At the end of each of eight periods all that nodes and
// clients keep is measured. What a cluster keeps must not depend on its age. HOLDFAST_AGE_DAYS=365 is a year,
// some four hours of a processor.
func TestAgeing(t *testing.T) {
	days := 0.25
	if text := os.Getenv(ageVariable); text != "" {
		var err error
		if days, err = strconv.ParseFloat(text, 64); err != nil || days <= 0 {
			t.Fatalf("%s=%q: want a number of days", ageVariable, text)
		}
	}
	bubble.Test(t, func(t *testing.T) {
		a := newAged(t)
		defer a.end()
		for range agePeriods {
			a.grows(time.Duration(days * float64(24*time.Hour) / agePeriods))
			a.measure()
		}
		t.Log(a.table())
		for _, finding := range unsettled(a.periods) {
			t.Error(finding)
		}
		a.kept()
	})
}

// aged is a cluster with its clients, and the figures at the end of each period.
type aged struct {
	*fleet
	clients []*client.Client
	// keepers are the sessions that live on, oldest the first node that is a member.
	keepers []*client.Session
	oldest  int
	uses    int
	periods []map[string]float64
}

func newAged(t *testing.T) *aged {
	t.Helper()
	// A commit timeout is a message to each follower.
	slow := []func(int, *node.Options){func(_ int, o *node.Options) { o.Platform.CommitTimeout = ageRound }}
	f := &fleet{t: t, options: slow, configure: func(i int, c *config.Config) {
		c.Peers = c.Peers[max(i-3, 0):max(i+1, 3)]
		c.Sessions.HeartbeatInterval, c.Sessions.MinTimeout, c.Sessions.MaxTimeout = ageRound, ageTimeout, ageTTL
		c.Sessions.MaxStateBytes = ageStates
		c.Raft.HeartbeatTimeout, c.Raft.StallTimeout = ageRound, ageRound
		c.Tuning.SnapshotInterval, c.Tuning.SnapshotThreshold, c.Tuning.TrailingLogs = time.Hour, 2000, 500
	}}
	f.simulate(3)
	a := &aged{fleet: f}
	for i := range 5 {
		a.clients = append(a.clients, f.client(fmt.Sprintf("c%d", i), f.endpoints()...))
	}
	for i := range ageKeepers {
		a.keepers = append(a.keepers, a.opens(a.clients[i%len(a.clients)]))
	}
	return a
}

func (a *aged) opens(cl *client.Client) *client.Session {
	a.t.Helper()
	s, err := cl.Open(a.t.Context(), client.SessionOptions{
		Timeout: ageTimeout, Labels: map[string]string{"app": "ageing"},
	})
	if err != nil {
		a.t.Fatal(err)
	}
	return s
}

// grows lets a time of ordinary use pass. At its end the oldest node is replaced, and another node restarts.
func (a *aged) grows(d time.Duration) {
	a.t.Helper()
	pause := min(agePause, d/usesAPeriod)
	for end := time.Now().Add(d); time.Now().Before(end); {
		a.use()
		if a.uses%usesAPeriod == 0 {
			if _, err := a.clients[0].AllocateIDs(a.t.Context(), 100); err != nil {
				a.t.Fatal(err)
			}
		}
		time.Sleep(pause)
	}
	a.restart(a.oldest + 1)
	operator := a.operator(a.oldest, a.oldest+1, a.oldest+2)
	defer func() { _ = operator.Close() }()
	a.added(operator)
	a.removed(operator, a.oldest)
	if err := os.RemoveAll(filepath.Join(a.dir, fmt.Sprint(a.oldest))); err != nil {
		a.t.Fatal(err)
	}
	a.nodes[a.oldest].Node = nil // or the dead would count as growth
	a.oldest++
}

// use acts like a program that acquires a lock: it opens a session, waits for the lock, writes, and closes. One of ten
// vanishes instead.
func (a *aged) use() {
	a.t.Helper()
	a.uses++
	cl, vanishes := a.clients[a.uses%len(a.clients)], a.uses%10 == 0
	host := fmt.Sprintf("v%d", a.uses)
	if vanishes {
		cl = a.client(host, a.endpoints()[a.oldest:]...)
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), time.Hour)
	defer cancel()
	s := a.opens(cl)
	hold, err := recipes.NewLock(s, fmt.Sprintf("/lock-%d", a.uses%ageLocks)).Lock(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, o := range []client.CreateOptions{
		{Kind: tree.Expiring, TTL: ageTTL, Sequential: true, Parents: true}, {Kind: tree.Ephemeral, Sequential: true},
	} {
		will := client.WithWill(tree.Will{Transaction: tree.Transaction{Then: []tree.Op{
			tree.Create{Path: fmt.Sprintf("/left/%d", a.uses%ageLocks), Kind: tree.Persistent, Parents: true},
		}}})
		if _, err := s.Tree().Create(ctx, "/jobs/x-", make([]byte, 100), o, will); err != nil {
			a.t.Fatal(err)
		}
	}
	if vanishes {
		a.net.Kill(host)
		_ = cl.Close()
		return
	}
	if err := hold.Unlock(ctx); err != nil {
		a.t.Fatal(err)
	}
	if err := s.Close(ctx); err != nil {
		a.t.Fatal(err)
	}
}

// measure records the sizes of the process, the directories and the nodes. Of a metric it records the largest value of
// all nodes.
func (a *aged) measure() {
	a.t.Helper()
	time.Sleep(3 * ageTTL) // vanished clients are forgotten, TTLs are over
	now := map[string]float64{"goroutines": float64(runtime.NumGoroutine())}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	now["heap"] = float64(memory.HeapAlloc)
	for i := a.oldest; i < len(a.nodes); i++ {
		now["directory"] = max(now["directory"], directorySize(a.t, filepath.Join(a.dir, fmt.Sprint(i))))
		page := fmt.Sprintf("http://n%d:7403/metrics", i+1)
		for name, value := range gauges(a.t, whole.Browser(a.net.Host("probe")), page) {
			now[name] = max(now[name], value)
		}
	}
	if used := now["holdfast_node_numbers_retired"]; used != float64(a.oldest) {
		a.t.Errorf("%.0f node numbers are used up, and %d nodes were removed", used, a.oldest)
	}
	a.periods = append(a.periods, now)
}

func directorySize(t *testing.T, dir string) (bytes float64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			bytes += float64(info.Size())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// gauges reads a node's own gauges, summed over labels.
func gauges(t *testing.T, web *http.Client, url string) map[string]float64 {
	t.Helper()
	answer, err := web.Get(url) //nolint:noctx // nothing on a page waits
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	all, isGauge := make(map[string]float64), make(map[string]bool)
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		line := lines.Text()
		if kind, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, what, _ := strings.Cut(kind, " ")
			isGauge[name] = what == "gauge"
			continue
		}
		at := strings.LastIndex(line, " ")
		name, _, _ := strings.Cut(line[:max(at, 0)], "{")
		value, err := strconv.ParseFloat(line[at+1:], 64)
		if isGauge[name] && strings.HasPrefix(name, "holdfast_") && err == nil && !math.IsNaN(value) {
			all[name] += value
		}
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d gauges, %v", url, len(all), err)
	}
	return all
}

// mayGrow lists the figures that may grow with a cluster's age, and how far. 0 means no bound here: at ten
// thousand entries a second an index reaches tree.MaxIndex after 446 years.
var mayGrow = map[string]float64{
	"holdfast_raft_term": 0, "holdfast_raft_commit_index": 0, "holdfast_applied_index": 0,
	"holdfast_state_compared_index": 0, "holdfast_term_good_round": 0, "holdfast_death_certificate_bytes": ageStates / 8, "holdfast_node_numbers_retired": 254,
}

// unsettled returns the figures that grow with age: those that are higher at the end than at the half, by a tenth and
// their normal variation.
func unsettled(periods []map[string]float64) (findings []string) {
	half, last := periods[len(periods)/2-1], periods[len(periods)-1]
	for _, name := range slices.Sorted(maps.Keys(last)) {
		most, ok := mayGrow[name]
		switch {
		case ok && most == 0:
			continue
		case !ok:
			most = 1.1*half[name] + slack(name)
		}
		if last[name] > most {
			findings = append(findings, fmt.Sprintf("%s is %.0f at the end and was %.0f at the half: want at most %.0f", name,
				last[name], half[name], most))
		}
	}
	return findings
}

// slack is a figure's normal variation.
func slack(name string) float64 {
	switch {
	case name == "heap", name == "directory", strings.HasSuffix(name, "_bytes"):
		return 8 << 20
	case strings.HasSuffix(name, "_seconds"):
		return 2 * ageTimeout.Seconds()
	default:
		return 20
	}
}

// table shows the figures that changed, a line for each, over the periods.
func (a *aged) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d uses, %v:\n", a.uses, time.Since(session.Epoch().AddDate(0, 6, 0)).Round(time.Hour))
	for _, name := range slices.Sorted(maps.Keys(a.periods[0])) {
		first, changed := a.periods[0][name], false
		line := fmt.Sprintf("%-45s", name)
		for _, p := range a.periods {
			changed = changed || p[name] != first
			line += fmt.Sprintf(" %.0f", p[name])
		}
		if changed {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// kept checks that no living session was lost, and ends the clients.
func (a *aged) kept() {
	a.t.Helper()
	for i, s := range a.keepers {
		if err := s.Err(); err != nil {
			a.t.Errorf("session %d: %v", i, err)
		}
	}
	for _, cl := range a.clients {
		_ = cl.Close()
	}
}

// TestAgeingIsJudged shows what counts as growth.
func TestAgeingIsJudged(t *testing.T) {
	periods := func(name string, each float64) (all []map[string]float64) {
		for i := range agePeriods {
			all = append(all, map[string]float64{name: 100 + each*float64(i)})
		}
		return all
	}
	for name, tt := range map[string]struct {
		figure string
		each   float64
		found  bool
	}{
		"sessions that stay":            {"holdfast_sessions", 0, false},
		"sessions that are not ended":   {"holdfast_sessions", 10, true},
		"goroutines that do not end":    {"goroutines", 10, true},
		"a heap that grows":             {"heap", 4 << 20, true},
		"a log that is not truncated":   {"directory", 4 << 20, true},
		"certificates below their room": {"holdfast_death_certificate_bytes", 1 << 16, false},
		"certificates above their room": {"holdfast_death_certificate_bytes", 2 << 20, true},
		"an index":                      {"holdfast_applied_index", 1e6, false},
	} {
		t.Run(name, func(t *testing.T) {
			if found := unsettled(periods(tt.figure, tt.each)); (len(found) > 0) != tt.found {
				t.Errorf("found %q, want a finding: %v", found, tt.found)
			}
		})
	}
}

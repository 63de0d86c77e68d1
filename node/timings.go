package node

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"holdfast/fsm"
	"holdfast/session"
)

// timings are the distributions of how long things take on this node. They live as long as the process, over all terms
// that it leads. Each has classic buckets and the buckets of a native histogram: which of them Prometheus gets depends
// on the form of its scrape. Safe for concurrent use.
type timings struct {
	sync, apply, commit, lateness, promiseLeft, watchDelay prometheus.Histogram
	// roundTrip has a label for each member, of which there are at most 254.
	roundTrip *prometheus.HistogramVec
	// landed are the newest entries that this node has applied: watchDelay begins there.
	landed landings
}

// timing describes one of [timings].
type timing struct {
	name, help, alarm string
	buckets           []float64
}

// bucketFactor bounds the growth from one bucket of a native histogram to the next, maxBuckets their number, and
// bucketsReset how soon they may begin anew when there are more.
const (
	bucketFactor = 1.1
	maxBuckets   = 160
	bucketsReset = time.Hour
)

// The timings, in the order of the documentation.
const (
	syncTime = iota
	applyTime
	commitTime
	latenessTime
	promiseTime
	watchTime
	roundTripTime
	// times is how many there are.
	times
)

// histograms describes all timings.
func histograms() [times]timing {
	// Classic buckets from 100 us to 13 s, and from 5 ms to 41 s.
	fast, slow := prometheus.ExponentialBuckets(0.0001, 2, 18), prometheus.ExponentialBuckets(0.005, 2, 14)
	return [times]timing{
		syncTime: {
			"log_sync_seconds", "Time to write a batch of entries to this node's Raft log, with its two syncs.",
			"the 99th percentile is above a tenth of stall_limit: the disk is slow", fast,
		},
		applyTime: {
			"apply_seconds", "Time to apply one log entry to the state.", "", fast,
		},
		commitTime: {
			"commit_seconds", "Time from the proposal of an entry by this node, while it leads, until the entry is " +
				"committed and applied here.",
			"the 99th percentile is above 1 s: a quorum's disks, or the network between the nodes, are slow", fast,
		},
		latenessTime: {
			"expiry_lateness_seconds", "Time from the moment at which a session was due, on the accountable clock, until " +
				"this node, while it leads, proposed to end it (E2, E3).",
			"the 99th percentile is above 10 s: owners do not answer, or rounds are not good", slow,
		},
		promiseTime: {
			"promise_left_seconds", "What was left of the promise of a connection when its next touch came; 0 when it had " +
				"run out. Of sessions that are touched apart, because their timeouts differ, the promise that runs out first " +
				"counts. Only the promises of touches count, not those of opens and resumes.",
			"much of it is below 1 s: clients touch late, or answers come late", slow,
		},
		watchTime: {
			"watch_delay_seconds", "Time from the applying of a change at this node until the event goes to the client. " +
				"Changes before the newest 1,024 entries are left out: a client that comes back gets those.",
			"the 99th percentile is above 1 s: clients do not take their events, or the node is short of processors", fast,
		},
		roundTripTime: {
			"round_trip_seconds", "Time from a heartbeat of this node, while it leads, until the whole answer of a member " +
				"has come.",
			"the 99th percentile is above heartbeat_interval: that member, or the way to it, is slow", fast,
		},
	}
}

func (t timing) options() prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: "holdfast_" + t.name, Help: t.help, Buckets: t.buckets,
		NativeHistogramBucketFactor: bucketFactor, NativeHistogramMaxBucketNumber: maxBuckets,
		NativeHistogramMinResetDuration: bucketsReset,
	}
}

func newTimings() *timings {
	table := histograms()
	single := func(of int) prometheus.Histogram { return prometheus.NewHistogram(table[of].options()) }
	return &timings{
		sync: single(syncTime), apply: single(applyTime), commit: single(commitTime),
		lateness: single(latenessTime), promiseLeft: single(promiseTime), watchDelay: single(watchTime),
		roundTrip: prometheus.NewHistogramVec(table[roundTripTime].options(), []string{"member"}),
	}
}

// collectors returns what a registry of Prometheus takes.
func (t *timings) collectors() []prometheus.Collector {
	return []prometheus.Collector{t.sync, t.apply, t.commit, t.lateness, t.promiseLeft, t.watchDelay, t.roundTrip}
}

// heard notes the answer of a member to a heartbeat.
func (t *timings) heard(from session.Node, sent time.Time) {
	t.roundTrip.WithLabelValues(strconv.Itoa(int(from))).Observe(time.Since(sent).Seconds())
}

// expired notes how late sessions were found expired.
func (t *timings) expired(late []time.Duration) {
	for _, d := range late {
		t.lateness.Observe(d.Seconds())
	}
}

// touched notes what was left of a promise.
func (t *timings) touched(left time.Duration) { t.promiseLeft.Observe(left.Seconds()) }

// told notes that an event of the entry at index goes to a client.
func (t *timings) told(index uint64) {
	if at, ok := t.landed.find(index); ok {
		t.watchDelay.Observe(time.Since(at).Seconds())
	}
}

// landings remembers when the applying of the newest entries began. Only the goroutine that applies entries may call
// add; find is safe for concurrent use.
type landings struct {
	slots [1024]atomic.Pointer[landing]
}

type landing struct {
	index uint64
	at    time.Time
}

func (l *landings) add(index uint64, now time.Time) {
	l.slots[index%uint64(len(l.slots))].Store(&landing{index, now})
}

func (l *landings) find(index uint64) (at time.Time, ok bool) {
	one := l.slots[index%uint64(len(l.slots))].Load()
	if one == nil || one.index != index {
		return time.Time{}, false
	}
	return one.at, true
}

// timedRaft measures how long entries take that this node proposes.
type timedRaft struct {
	fsm.Raft
	commit prometheus.Observer
}

// Apply proposes an entry.
func (r timedRaft) Apply(data []byte, timeout time.Duration) raft.ApplyFuture {
	return timedFuture{r.Raft.Apply(data, timeout), time.Now(), r.commit}
}

// timedFuture is an entry on its way. Its Error must be called once.
type timedFuture struct {
	raft.ApplyFuture
	began  time.Time
	commit prometheus.Observer
}

// Error waits for the entry.
func (f timedFuture) Error() error {
	err := f.ApplyFuture.Error()
	if err == nil {
		f.commit.Observe(time.Since(f.began).Seconds())
	}
	return err
}

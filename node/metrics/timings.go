package metrics

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"holdfast/fsm/proposer"
	"holdfast/session"
)

// Timings are the histograms of a node. They exist as long as the process, across all terms that it leads. Each has
// classic buckets and the buckets of a native histogram; the format of a scrape decides which of them Prometheus gets.
// Safe for concurrent use, except for [Timings.ApplyBegins].
type Timings struct {
	sync, apply, commit, lateness, promiseLeft, watchDelay prometheus.Histogram
	// roundTrip has a label for each member, of which there are at most 254.
	roundTrip *prometheus.HistogramVec
	// applied has the newest entries that this node has applied. watchDelay is measured from there.
	applied applyTimes
}

// histogram is a row of [histograms].
type histogram struct {
	name, help, alert string
	buckets           []float64
	// member says that the histogram has the label member.
	member bool
}

// bucketFactor bounds the growth from one bucket of a native histogram to the next. maxBuckets bounds the number of
// buckets. bucketsReset is the least time after which a histogram with too many buckets starts again.
const (
	bucketFactor = 1.1
	maxBuckets   = 160
	bucketsReset = time.Hour
)

// Indexes of [histograms], in the order of the documentation.
const (
	syncTime = iota
	applyTime
	commitTime
	latenessTime
	promiseTime
	watchTime
	roundTripTime
	// histogramCount is the number of histograms.
	histogramCount
)

// histograms is the table of the histograms.
func histograms() [histogramCount]histogram {
	// Classic buckets from 100 us to 13 s, and from 5 ms to 41 s.
	fast, slow := prometheus.ExponentialBuckets(0.0001, 2, 18), prometheus.ExponentialBuckets(0.005, 2, 14)
	return [...]histogram{
		syncTime: {
			name: "log_sync_seconds", buckets: fast,
			help:  "Time to write a batch of entries to the Raft log, with its sync.",
			alert: "p99 above 0.5 s for 5 min: runbook HoldfastDiskSlow",
		},
		applyTime: {name: "apply_seconds", buckets: fast, help: "Time to apply a log entry."},
		commitTime: {
			name: "commit_seconds", buckets: fast,
			help:  "Time from this leader's proposal until the entry is committed and applied here.",
			alert: "p99 above 1 s for 5 min: runbook HoldfastCommitsSlow",
		},
		latenessTime: {
			name: "expiry_lateness_seconds", buckets: slow,
			help:  "Time from a session's deadline on the accountable clock until this leader proposed its end (E2, E3).",
			alert: "p99 above 10 s for 1 min: runbook HoldfastExpiryLate",
		},
		promiseTime: {
			name: "promise_remaining_seconds", buckets: slow,
			help: "Remaining time of a connection's promise at the next touch, the earliest of its sessions; 0 after its " +
				"end.",
			alert: "many below 1 s: clients touch late, or answers are late",
		},
		watchTime: {
			name: "watch_delay_seconds", buckets: fast,
			help: "Time from applying a change to sending its event, for changes of the newest 1,024 entries; older " +
				"changes are for clients that reconnect.",
			alert: "p99 above 1 s: slow clients, or too little processor time",
		},
		roundTripTime: {
			name: "round_trip_seconds", buckets: fast, member: true,
			help:  "Time from this leader's heartbeat to a member's whole answer.",
			alert: "p99 above 0.5 s for 5 min: runbook HoldfastMemberSlow",
		},
	}
}

func (h *histogram) options() prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: prefix + h.name, Help: h.help, Buckets: h.buckets,
		NativeHistogramBucketFactor: bucketFactor, NativeHistogramMaxBucketNumber: maxBuckets,
		NativeHistogramMinResetDuration: bucketsReset,
	}
}

// NewTimings returns empty histograms.
func NewTimings() *Timings {
	rows := histograms()
	single := func(of int) prometheus.Histogram { return prometheus.NewHistogram(rows[of].options()) }
	return &Timings{
		sync: single(syncTime), apply: single(applyTime), commit: single(commitTime),
		lateness: single(latenessTime), promiseLeft: single(promiseTime), watchDelay: single(watchTime),
		roundTrip: prometheus.NewHistogramVec(rows[roundTripTime].options(), []string{"member"}),
	}
}

func (t *Timings) collectors() []prometheus.Collector {
	return []prometheus.Collector{t.sync, t.apply, t.commit, t.lateness, t.promiseLeft, t.watchDelay, t.roundTrip}
}

// ObserveSync records the duration of a write to Raft's log.
func (t *Timings) ObserveSync(took time.Duration) { t.sync.Observe(took.Seconds()) }

// ObserveAnswer records a member's answer to the heartbeat that was sent at the given time.
func (t *Timings) ObserveAnswer(from session.Node, sent time.Time) {
	t.roundTrip.WithLabelValues(strconv.Itoa(int(from))).Observe(time.Since(sent).Seconds())
}

// ObserveExpiries records the delays with which sessions were found expired.
func (t *Timings) ObserveExpiries(late []time.Duration) {
	for _, d := range late {
		t.lateness.Observe(d.Seconds())
	}
}

// ObserveTouch records the rest of a promise at the next touch.
func (t *Timings) ObserveTouch(left time.Duration) { t.promiseLeft.Observe(left.Seconds()) }

// ObserveEvent records that the node sends a client an event of the entry at index.
func (t *Timings) ObserveEvent(index uint64) {
	if at, ok := t.applied.find(index); ok {
		t.watchDelay.Observe(time.Since(at).Seconds())
	}
}

// ApplyBegins records the time when the node began to apply an entry. Only the goroutine that applies entries may call
// it.
func (t *Timings) ApplyBegins(index uint64, now time.Time) { t.applied.add(index, now) }

// ObserveApply records the duration of applying an entry.
func (t *Timings) ObserveApply(took time.Duration) { t.apply.Observe(took.Seconds()) }

// applyTimes remembers when the node began to apply each of the newest entries.
type applyTimes struct {
	slots [1024]atomic.Pointer[applyTimeOf]
}

type applyTimeOf struct {
	index uint64
	at    time.Time
}

func (a *applyTimes) add(index uint64, now time.Time) {
	a.slots[index%uint64(len(a.slots))].Store(&applyTimeOf{index, now})
}

func (a *applyTimes) find(index uint64) (at time.Time, ok bool) {
	one := a.slots[index%uint64(len(a.slots))].Load()
	if one == nil || one.index != index {
		return time.Time{}, false
	}
	return one.at, true
}

// Raft returns r, with a measurement of the time from each proposal to its commit.
func (t *Timings) Raft(r proposer.Raft) proposer.Raft { return timedRaft{r, t.commit} }

type timedRaft struct {
	proposer.Raft
	commit prometheus.Observer
}

// Apply proposes an entry.
func (r timedRaft) Apply(data []byte, timeout time.Duration) raft.ApplyFuture {
	return timedFuture{r.Raft.Apply(data, timeout), time.Now(), r.commit}
}

// timedFuture is an entry in flight. Error must be called once.
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

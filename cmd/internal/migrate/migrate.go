// Package migrate copies a tree from ZooKeeper to a Holdfast cluster, and compares the two. To continue an interrupted
// copy, run it again: equal entries are skipped. docs/zookeeper.md lists what a copy keeps.
package migrate

import (
	"context"
	"fmt"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/tree"
)

const (
	// MaxInFlight bounds [Options.InFlight]. Each request has at most 1 MiB, and a session of the SDK holds 20 MiB.
	MaxInFlight = 16
	// MaxProblems is how many problems a [Summary] lists; it counts all.
	MaxProblems = 100
	// progressEvery is the time between two reports of progress.
	progressEvery = time.Second
)

// Node is an entry at the source.
type Node struct {
	// Data is nil for null.
	Data []byte
	ACL  tree.ACL
	// Version and ACLVersion count changes; they are negative once ZooKeeper's 32 bits have overflowed.
	Version, ACLVersion int64
	Ephemeral           bool
	// Children is how many there are, Made how many there have ever been: the next sequential name's number.
	Children, Made int64
}

// Children is the state of a directory at the source, at one moment.
type Children struct {
	Names []string
	Made  int64
}

// Source reads the tree to copy. Paths are relative to its chroot. found is false for a missing entry. A
// [*RefusalError] concerns one entry; all other errors end the copy. Safe for concurrent use.
type Source interface {
	// Sync returns once reads show everything that was written before the call. Each walk starts with Sync.
	Sync(ctx context.Context) error
	Node(ctx context.Context, path string) (n Node, found bool, err error)
	Children(ctx context.Context, path string) (c Children, found bool, err error)
}

// Target is the tree that gets the copy: that of a session of the SDK.
type Target interface {
	Get(ctx context.Context, path string, o ...client.ReadOption) (client.Entry, error)
	GetACL(ctx context.Context, path string, o ...client.ReadOption) (client.AccessList, error)
	ListPage(ctx context.Context, path string, l client.Listing, o ...client.ReadOption) (client.Children, error)
	Transact(ctx context.Context, x tree.Transaction, o ...client.WriteOption) (client.Transacted, error)
	DeleteTree(ctx context.Context, path string, o ...client.WriteOption) (client.Removed, error)
	// Root is where the copy goes, a path of the cluster's tree.
	Root() string
}

// Options say how to copy.
type Options struct {
	// VerifyOnly compares, and changes nothing.
	VerifyOnly bool
	// Overwrite replaces data and access lists that differ; otherwise they are conflicts.
	Overwrite bool
	// Delete removes persistent entries that the source does not have.
	Delete bool
	// InFlight bounds the entries in flight: 1 to [MaxInFlight].
	InFlight int
	// MaxVersion is the highest version to keep, because each version costs a write; entries with a higher version
	// start at version 0.
	MaxVersion int64
	// MaxCounter bounds how far the number of the next sequential name is raised, as each step costs two writes.
	MaxCounter int64
	// Timeout bounds each call at the target.
	Timeout time.Duration
	// Progress gets the summary so far, every second.
	Progress func(Summary)
}

// Counts are the counts of one walk over the source.
type Counts struct {
	// Entries is the number of persistent entries, Bytes the size of their data.
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
	// Created, Overwritten, Raised and Equal count outcomes: Raised entries only had lower versions.
	Created     int64 `json:"created"`
	Overwritten int64 `json:"overwritten"`
	Raised      int64 `json:"raised"`
	Equal       int64 `json:"equal"`
	// Counters is the number of parents whose counter of sequential names was raised.
	Counters int64 `json:"counters_raised"`
	// Ephemerals were skipped. Vanished were deleted at the source before they could be read.
	Ephemerals int64 `json:"ephemerals_skipped"`
	Vanished   int64 `json:"vanished"`
	// Deleted were at the target alone, Extra are still.
	Deleted int64 `json:"deleted"`
	Extra   int64 `json:"extra"`
	// Lost versions are above the limit or have overflowed; Ahead are higher at the target than at the source.
	Lost  int64 `json:"versions_not_kept"`
	Ahead int64 `json:"versions_ahead"`
	// Conflicts differ and stayed unchanged, Refused could not be copied, Different were found by a comparison.
	Conflicts int64 `json:"conflicts"`
	Refused   int64 `json:"refused"`
	Different int64 `json:"different"`
}

// Summary is the result.
type Summary struct {
	Copied   *Counts `json:"copied,omitempty"` // absent when nothing was to be copied
	Verified *Counts `json:"verified,omitempty"`
	// Problems are the first [MaxProblems] of both.
	Problems []Problem `json:"problems"`
	Equal    bool      `json:"equal"`
}

// Run copies from one tree to the other unless it only verifies, and compares afterwards. The error is nil also when
// entries were refused or differ: the summary lists them.
func Run(ctx context.Context, from Source, to Target, o Options) (Summary, error) {
	r := &run{from: from, to: to, Options: o, problems: []Problem{}}
	stop := r.report()
	defer stop()
	if !o.VerifyOnly {
		r.begin(&r.copied)
		if err := r.walk(ctx); err != nil {
			return r.summary(), err
		}
	}
	r.begin(&r.verified)
	err := r.walk(ctx)
	s := r.summary()
	s.Equal = err == nil && s.Verified.Different+s.Verified.Extra+s.Verified.Refused == 0
	return s, err
}

// run is one copy.
type run struct {
	from Source
	to   Target
	Options

	mu sync.Mutex
	// counts are the counts of the present walk, either copied or verified; guarded by mu.
	counts, copied, verified *Counts
	// problems of both walks; guarded by mu.
	problems []Problem
}

// begin makes the next walk count into to.
func (r *run) begin(to **Counts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts = &Counts{}
	*to = r.counts
}

// verifying reports whether the present walk changes nothing.
func (r *run) verifying() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.verified != nil
}

// count changes the counts of the present walk.
func (r *run) count(f func(c *Counts)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.counts)
}

// note counts a problem, and keeps it while the list is below its limit.
func (r *run) note(p Problem) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch p.Kind {
	case Conflict:
		r.counts.Conflicts++
	case Refused:
		r.counts.Refused++
	case Extra:
		r.counts.Extra++
	case Different:
		r.counts.Different++
	}
	if len(r.problems) < MaxProblems {
		r.problems = append(r.problems, p)
	}
}

// refused records an error about one entry, and returns any other error.
func (r *run) refused(path string, err error) error {
	why := refusalOf(err)
	if why == nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	r.note(Problem{Path: path, Kind: Refused, Field: why.Field, Why: why.Why})
	return nil
}

func (r *run) summary() Summary {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Summary{Problems: append([]Problem{}, r.problems...)}
	if r.copied != nil {
		s.Copied = new(*r.copied)
	}
	if r.verified != nil {
		s.Verified = new(*r.verified)
	}
	return s
}

// report reports progress until stop is called; stop waits for the last report.
func (r *run) report() (stop func()) {
	if r.Progress == nil {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				r.Progress(r.summary())
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

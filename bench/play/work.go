// Package play has the works of the benchmark: what clients do with a cluster, and what is measured meanwhile.
package play

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"holdfast/bench/system"
)

// Unit says how a figure is written.
type Unit uint8

// Units of figures.
const (
	// Seconds is a time.
	Seconds Unit = iota
	// PerSecond is a rate.
	PerSecond
	// Percent is a share of one core.
	Percent
	// Bytes is memory.
	Bytes
	// Count is a number of things.
	Count
)

// Figure is something that a work measures.
type Figure struct {
	// Key names the figure in the results that a program reads.
	Key string
	// Title names it for people.
	Title string
	Unit  Unit
}

// Work is one way to use a cluster.
type Work struct {
	Name    string
	Figures []Figure
	// Apart says that the work is played only when it is named: it runs long, and compares nothing.
	Apart bool
	// Beside says that the work is played only when it is named, because it is one of ZooKeeper's clients.
	Beside bool
	// locks says that the work contends for locks.
	locks bool
	// bound is how long the work may last at the scale of 1.
	bound time.Duration
	// needs says whether the work can be played through a connection; nil is through any.
	needs func(system.Conn) bool
	play  func(ctx context.Context, s *stage) error
}

// Options say how works are played.
type Options struct {
	// Scale multiplies the numbers of sessions and requests; 1 is as documented.
	Scale float64
	// Size is how many servers a cluster has.
	Size int
	// Sessions is how many there are when the leader of a full cluster is killed, at the scale of 1.
	Sessions int
	// Trouble is that of the work needless.
	Trouble Trouble
	// Log gets lines of progress.
	Log func(format string, args ...any)
}

// stage is what a work has: a cluster of its own, and a place for its figures.
type stage struct {
	system.Cluster
	Options
	// dir is the directory of the play. more starts another cluster, with its data in a directory below it.
	dir     string
	more    func(ctx context.Context, name string) (system.Cluster, error)
	figures map[string]float64
}

// set notes a figure of the work.
func (s *stage) set(key string, value float64) { s.figures[key] = value }

// scaled returns n at the scale, at least 1.
func (s *stage) scaled(n int) int { return max(1, int(float64(n)*s.Scale)) }

// many returns a number of sessions at the scale, at most as many as the cluster can have from here.
func (s *stage) many(n int) int {
	n = s.scaled(n)
	if b, ok := s.Cluster.(system.Bounded); ok {
		n = min(n, b.Most())
	}
	return n
}

// Play starts a cluster in dir, does the work, stops the cluster, and returns the figures by their keys. The error is
// errors.ErrUnsupported when the system has no such work.
func (w Work) Play(ctx context.Context, of system.System, dir string, o Options) (map[string]float64, error) {
	if _, only := of.(system.LocksOnly); only && !w.locks {
		return nil, errors.ErrUnsupported
	}
	bound := time.Duration(float64(w.bound) * max(1, o.Scale))
	if w.Apart {
		bound += o.Trouble.Length
	}
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cluster, err := of.Start(ctx, dir, o.Size)
	if err != nil {
		return nil, err
	}
	defer cluster.Stop()
	if err := w.possible(ctx, cluster); err != nil {
		return nil, err
	}
	s := &stage{Cluster: cluster, Options: o, dir: dir, figures: map[string]float64{}}
	s.more = func(ctx context.Context, name string) (system.Cluster, error) {
		return of.Start(ctx, filepath.Join(dir, name), o.Size)
	}
	if err := w.play(ctx, s); err != nil {
		if ctx.Err() != nil {
			err = errors.Join(err, context.Cause(ctx))
		}
		return nil, err
	}
	return s.figures, nil
}

// possible returns errors.ErrUnsupported when the connections of a cluster cannot do the work.
func (w Work) possible(ctx context.Context, cluster system.Cluster) error {
	if w.needs == nil {
		return nil
	}
	c, err := cluster.Connect(ctx, 0)
	if err != nil {
		return err
	}
	defer c.End()
	if !w.needs(c) {
		return errors.ErrUnsupported
	}
	return nil
}

// can reports whether a connection is a T.
func can[T any](c system.Conn) bool {
	_, ok := c.(T)
	return ok
}

// All returns all works.
func All() []Work {
	return []Work{
		openWork(), floodWork(), idleWork(), crowdWork(), memoryWork(), killWork(), freezeWork(), moveWork(),
		resumeWork(), singleMoveWork(), fullWork(), fullSinglyWork(), usualWork(), stormWork(), touchWork(), followerWork(),
		newestWork(), createWork(), readWork(), mixedWork(), valueWork(), snapshotWork(), eventWork(),
		ephemeralWork(), lockWork(), lockQueueWork(), needlessWork(), zooRequestWork(), zooConnectWork(), zooIdleWork(),
		zooLeaderWork(), zooNodeWork(), zooExpiryWork(), growthSessionWork(), growthEntryWork(),
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"holdfast/bench/play"
	"holdfast/bench/system"
	"holdfast/bench/table"
)

// season is what is to be played.
type season struct {
	options
	dir     string
	works   []play.Work
	systems []system.System
}

// play plays all works with all systems in turns, so that what the machine does besides hits all of them.
func (s *season) play(ctx context.Context) *table.Results {
	results := &table.Results{Begun: time.Now(), Machine: machine(), Scale: s.how.Scale}
	for _, of := range s.systems {
		results.Systems = append(results.Systems, of.Name())
	}
	for number := range s.runs {
		for _, w := range s.works {
			for _, of := range s.systems {
				if ctx.Err() != nil {
					return results
				}
				r := table.Run{Work: w.Name, System: of.Name(), Number: number + 1}
				s.one(ctx, w, of, &r)
				results.Runs = append(results.Runs, r)
			}
		}
	}
	return results
}

// one plays a work once, in a directory of its own.
func (s *season) one(ctx context.Context, w play.Work, of system.System, r *table.Run) {
	dir, err := os.MkdirTemp(s.dir, "play-")
	if err == nil {
		r.Figures, err = w.Play(ctx, of, dir, s.how)
		err = errors.Join(err, os.RemoveAll(dir))
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		s.how.Log("run %d: %s, %s: no such work", r.Number, w.Name, of.Name())
	case err != nil:
		r.Err = err.Error()
		s.how.Log("run %d: %s, %s: FAILED: %v", r.Number, w.Name, of.Name(), err)
	default:
		s.how.Log("run %d: %s, %s: %s", r.Number, w.Name, of.Name(), line(w, r.Figures))
	}
}

// line has the figures of one play.
func line(w play.Work, figures map[string]float64) string {
	var all []string
	for _, f := range w.Figures {
		if v, ok := figures[f.Key]; ok {
			all = append(all, f.Key+" "+table.Format(v, f.Unit))
		}
	}
	return strings.Join(all, ", ")
}

// machine says on what the figures were measured.
func machine() string {
	return fmt.Sprintf("%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
}

package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
)

// progress shows how far a soak has come.
type progress interface {
	// follow calls observe repeatedly until finished is closed.
	follow(finished <-chan struct{}, observe func() state)
}

// newProgress returns a bar on a terminal, and lines elsewhere.
func newProgress(w io.Writer, seeds uint64) progress {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &bar{progressbar.NewOptions64(int64(seeds),
				progressbar.OptionSetWriter(w), progressbar.OptionSetItsString("seeds"), progressbar.OptionShowIts(),
				progressbar.OptionShowCount(), progressbar.OptionSetPredictTime(true), progressbar.OptionFullWidth())}
		}
	}
	return &lines{w, seeds}
}

const (
	barInterval  = 500 * time.Millisecond
	lineInterval = 10 * time.Second
)

// each calls f at every interval, and once more when finished is closed.
func each(interval time.Duration, finished <-chan struct{}, f func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			f()
		case <-finished:
			f()
			return
		}
	}
}

type bar struct{ bar *progressbar.ProgressBar }

func (b *bar) follow(finished <-chan struct{}, observe func() state) {
	each(barInterval, finished, func() {
		s := observe()
		b.bar.Describe(fmt.Sprintf("%d failed, %.1f virtual hours", s.failures, s.virtual.Hours()))
		_ = b.bar.Set(s.seeds) // a bar that cannot be drawn is no reason to stop
	})
	_ = b.bar.Exit()
}

type lines struct {
	w     io.Writer
	seeds uint64
}

func (l *lines) follow(finished <-chan struct{}, observe func() state) {
	each(lineInterval, finished, func() { _, _ = fmt.Fprintln(l.w, observe().line(l.seeds)) })
}

// line returns the soak's progress and remaining time.
func (s state) line(seeds uint64) string {
	text := fmt.Sprintf("soak: %d of %d seeds, %d failed, %.1f virtual hours in %v", s.seeds, seeds, s.failures,
		s.virtual.Hours(),
		s.wall.Round(time.Second))
	if left := seeds - uint64(s.seeds); s.seeds > 0 && left > 0 {
		each := s.wall / time.Duration(s.seeds)
		text += fmt.Sprintf(", about %v left", (each * time.Duration(left)).Round(time.Second))
	}
	return text
}

package leader

import (
	"testing"
	"time"
)

// O2: marks that span a minute say up to which index every open is old enough, never too much.
func TestO2OpenMarks(t *testing.T) {
	marks := openMarks{width: time.Minute}
	if _, ok := marks.older(time.Hour); ok {
		t.Error("without opens something is old")
	}
	for _, o := range []struct {
		index uint64
		at    time.Duration
	}{{11, 0}, {12, 59 * time.Second}, {13, time.Minute}, {14, 2 * time.Minute}} {
		marks.note(o.index, o.at)
	}
	for _, tt := range []struct {
		moment time.Duration
		want   uint64
	}{{58 * time.Second, 0}, {59 * time.Second, 12}, {time.Minute, 13}, {time.Hour, 14}} {
		if got, ok := marks.older(tt.moment); got != tt.want || ok != (tt.want > 0) {
			t.Errorf("opens older than %v: up to %d, %v, want %d", tt.moment, got, ok, tt.want)
		}
	}
	marks.drop(13)
	if got, _ := marks.older(time.Minute); got != 0 {
		t.Errorf("after drop(13) the opens up to %d are old, want none", got)
	}
}

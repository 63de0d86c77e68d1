package health

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/transport/clientport"
)

// One warning for each time that four fifths are reached; coming and going about them is not one.
func TestCapacityWarnsOnce(t *testing.T) {
	var log bytes.Buffer
	logger := hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true})
	var u session.Usage
	f := WarnOfSessions(logger, "cluster", func() session.Usage { return u })
	u.Capacity = session.Capacity{MaxSessions: 100, MaxBytes: 1000}
	warnings := 0
	for _, step := range []struct {
		sessions, bytes uint64
		warns           bool
	}{
		{79, 1, false},
		{80, 1, true},
		{79, 1, false},
		{95, 1, false},
		{70, 1, false},
		{80, 1, false},
		{69, 1, false},
		{80, 1, true},
		{1, 1, false},
		{1, 800, true},
		{1, 699, false},
		{1, 1200, true},
	} {
		u.Sessions, u.Bytes = step.sessions, step.bytes
		before := strings.Count(log.String(), "limit nearly reached")
		f.Check()
		warnings = strings.Count(log.String(), "limit nearly reached")
		if (warnings > before) != step.warns {
			t.Errorf("%d of 100 sessions, %d of 1000 bytes: warned %v, want %v", step.sessions, step.bytes,
				warnings > before, step.warns)
		}
	}
	if !strings.Contains(log.String(), "max_sessions=100") || !strings.Contains(log.String(), "bytes=800") ||
		!strings.Contains(log.String(), "no longer near") {
		t.Errorf("the log says %s", log.String())
	}
	u = session.Usage{Sessions: 1 << 40}
	again := WarnOfSessions(logger, "", func() session.Usage { return u })
	again.Check()
	if got := strings.Count(log.String(), "limit nearly reached"); got != warnings {
		t.Error("warned without bounds")
	}
}

// The log warns of a tree that is nearly full, with the setting that bounds the tree.
func TestCapacityOfTheTree(t *testing.T) {
	var log bytes.Buffer
	logger := hclog.New(&hclog.LoggerOptions{Output: &log, DisableTime: true})
	status := clientport.TreeStatus{Entries: 7, Limit: 1000}
	f := WarnOfTree(logger, func() clientport.TreeStatus { return status })
	for _, step := range []struct {
		bytes uint64
		says  string
	}{
		{799, ""},
		{800, "limit nearly reached: writes that add to it are refused at the limit: entries=7 bytes=800 " +
			"max_tree_bytes=1000 of=tree"},
		{999, ""},
		{699, "limit no longer near: entries=7 bytes=699 max_tree_bytes=1000 of=tree"},
	} {
		log.Reset()
		status.Bytes = step.bytes
		f.Check()
		if got := log.String(); step.says == "" && got != "" || !strings.Contains(got, step.says) {
			t.Errorf("%d bytes of 1000: the log says %q, want %q", step.bytes, got, step.says)
		}
	}
}

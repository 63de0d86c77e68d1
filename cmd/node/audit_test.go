package main

import (
	"bytes"
	"strings"
	"testing"
)

// What operators do is written at every level of the log but off.
func TestTheAuditIsWrittenAtEachLevel(t *testing.T) {
	for level, want := range map[string]struct{ lines, audit bool }{
		"debug": {true, true}, "info": {true, true}, "warn": {false, true}, "error": {false, true}, "off": {false, false},
	} {
		var to bytes.Buffer
		logger, audit := newLoggers(&to, level, "json")
		logger.Info("a line")
		audit.Named("audit").Info("an act")
		got := to.String()
		if strings.Contains(got, "a line") != want.lines || strings.Contains(got, "an act") != want.audit {
			t.Errorf("at %s the log is %q", level, got)
		}
	}
}

package zk_test

import (
	"bytes"
	"strings"
	"sync"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/test/whole"
)

// lines is a log that several nodes write.
type lines struct {
	mu    sync.Mutex
	bytes bytes.Buffer // guarded by mu
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes.Write(p)
}

// with returns the lines that have a text.
func (l *lines) with(text string) (all []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.bytes.String()) {
		if strings.Contains(line, text) {
			all = append(all, line)
		}
	}
	return all
}

// TestSuperWritesAreAudited: each write of a client as super has an audit line, from the moment at which it is super.
// Writes of other clients, and its earlier writes, have none.
func TestSuperWritesAreAudited(t *testing.T) {
	log := &lines{}
	runSetup(t, whole.Setup{Log: log}, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second)
		must[string](t)(z.Create("/before", []byte("planted"), 0, zookeeper.WorldACL(zookeeper.PermAll)))
		if err := z.AddAuth("digest", []byte("super:test")); err != nil {
			t.Fatal(err)
		}
		must[string](t)(z.Create("/after", []byte("planted"), 0, zookeeper.WorldACL(zookeeper.PermAll)))
		_, err := z.Set("/after", []byte("planted"), 7)
		refused(t, err, zookeeper.ErrBadVersion)
		other, _ := served(t, c, "other", 10*time.Second)
		must[string](t)(other.Create("/other", nil, 0, zookeeper.WorldACL(zookeeper.PermAll)))

		all := log.with("write as super")
		want := []string{`create \"/after\"`, `set \"/after\"`}
		outcomes := []string{"outcome=done", "outcome=failed"}
		if len(all) != len(want) {
			t.Fatalf("%d lines, want %d:\n%s", len(all), len(want), strings.Join(all, ""))
		}
		for i, line := range all {
			if !strings.Contains(line, want[i]) || !strings.Contains(line, outcomes[i]) ||
				!strings.Contains(line, "who=super:super from=z:") || strings.Contains(line, "planted") {
				t.Errorf("line %d: %s, want %s and %s", i, line, want[i], outcomes[i])
			}
		}
	})
}

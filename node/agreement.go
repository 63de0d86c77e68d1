package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/session"
)

// agreement compares this node's settings with those that others tell when nodes meet. Safe for concurrent use.
type agreement struct {
	self session.Node
	own  map[string]string

	mu sync.Mutex
	// theirs are the settings of the nodes that were met. A release that tells none has none. guarded by mu
	theirs map[session.Node]map[string]string
	// tried is when a node was last asked for its settings. guarded by mu
	tried map[session.Node]time.Time
}

func newAgreement(self session.Node, own map[string]string) *agreement {
	return &agreement{
		self: self, own: own, theirs: map[session.Node]map[string]string{}, tried: map[session.Node]time.Time{},
	}
}

// heard notes what a node tells of its settings; the newest counts. Only those that this node compares are kept.
func (a *agreement) heard(node session.Node, told map[string]string) {
	kept := map[string]string{}
	for name := range a.own {
		if value, ok := told[name]; ok && len(value) <= maxSettingText {
			kept[name] = value
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.theirs[node] = kept
}

// maxSettingText bounds what is kept of a value.
const maxSettingText = 64

// asks reports whether a node is to be met for its settings: it was not met since this node started, nor tried lately.
func (a *agreement) asks(node session.Node, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.theirs[node] != nil || now.Sub(a.tried[node]) < complaintInterval {
		return false
	}
	a.tried[node] = now
	return true
}

// drift says which settings differ, and on which nodes: one text for each setting.
func (a *agreement) drift() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var found []string
	for _, name := range slices.Sorted(maps.Keys(a.own)) {
		var others []string
		for _, node := range slices.Sorted(maps.Keys(a.theirs)) {
			if value, ok := a.theirs[node][name]; ok && value != a.own[name] {
				others = append(others, fmt.Sprintf("%q on node %d", value, node))
			}
		}
		if len(others) > 0 {
			found = append(found, fmt.Sprintf("%s is %q on node %d and %s", name, a.own[name], a.self,
				strings.Join(others, ", ")))
		}
	}
	return found
}

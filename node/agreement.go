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

// agreement compares this node's settings with the settings that other nodes report when they meet. Safe for concurrent
// use.
type agreement struct {
	self session.Node
	own  map[string]string
	// knows reports whether a node is still one to compare with: what a removed node has said must not count for ever.
	// nil: all are. It does not change once the node runs.
	knows func(session.Node) bool

	mu sync.Mutex
	// theirs are the settings that other nodes have reported. guarded by mu
	theirs map[session.Node]map[string]string
	// tried is when this node last asked each other node for its settings. guarded by mu
	tried map[session.Node]time.Time
}

func newAgreement(self session.Node, own map[string]string) *agreement {
	return &agreement{
		self: self, own: own, theirs: map[session.Node]map[string]string{}, tried: map[session.Node]time.Time{},
	}
}

// heard keeps the settings that a node reports in place of its former report. It keeps only settings that this node
// compares.
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

// maxSettingText bounds a value, in bytes. Longer values are dropped.
const maxSettingText = 64

// asks reports whether this node should meet another one for its settings: it has not met that node since it started,
// and has not tried lately.
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
			if value, ok := a.theirs[node][name]; ok && value != a.own[name] && (a.knows == nil || a.knows(node)) {
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

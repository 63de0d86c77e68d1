package members

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"holdfast/session"
)

// settings compares this node's settings with the settings that other nodes report. Safe for concurrent use.
type settings struct {
	self session.Node
	own  map[string]string
	// knows reports whether a node still counts: the report of a removed node does not.
	knows func(session.Node) bool

	mu sync.Mutex
	// reported are the newest settings of each other node. guarded by mu
	reported map[session.Node]map[string]string
	// exchangedAt is when this node last requested the settings of each other node. guarded by mu
	exchangedAt map[session.Node]time.Time
}

func newSettings(self session.Node, own map[string]string, knows func(session.Node) bool) *settings {
	return &settings{
		self: self, own: own, knows: knows, reported: map[session.Node]map[string]string{},
		exchangedAt: map[session.Node]time.Time{},
	}
}

// note keeps the settings that a node reports in place of its former report. It keeps only settings that this node
// compares.
func (s *settings) note(node session.Node, reported map[string]string) {
	known := map[string]string{}
	for name := range s.own {
		if value, ok := reported[name]; ok && len(value) <= maxSettingText {
			known[name] = value
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reported[node] = known
}

// maxSettingText bounds a value, in bytes. Longer values are dropped.
const maxSettingText = 64

// isDue reports whether this node should request another node's settings: that node has reported none since this node
// started, and no request was sent lately.
func (s *settings) isDue(node session.Node, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reported[node] != nil || now.Sub(s.exchangedAt[node]) < warnInterval {
		return false
	}
	s.exchangedAt[node] = now
	return true
}

// differences says which settings differ, and on which nodes: one text for each setting.
func (s *settings) differences() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []string
	for _, name := range slices.Sorted(maps.Keys(s.own)) {
		var others []string
		for _, node := range slices.Sorted(maps.Keys(s.reported)) {
			if value, ok := s.reported[node][name]; ok && value != s.own[name] && s.knows(node) {
				others = append(others, fmt.Sprintf("%q on node %d", value, node))
			}
		}
		if len(others) > 0 {
			found = append(found, fmt.Sprintf("%s is %q on node %d and %s", name, s.own[name], s.self,
				strings.Join(others, ", ")))
		}
	}
	return found
}

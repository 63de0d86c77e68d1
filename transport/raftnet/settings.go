package raftnet

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/session"
)

// Setting is a setting that must be the same on every node of a cluster. Name and values contain no space and no equals
// sign.
type Setting struct{ Name, Value, Default string }

// introduction is the text of a greeting: the cluster id, and each setting with another value than its default.
func introduction(cluster string, settings []Setting) string {
	words := []string{cluster}
	for _, s := range settings {
		if s.Value != s.Default {
			words = append(words, s.Name+"="+s.Value)
		}
	}
	return strings.Join(words, " ")
}

// differs describes the first difference between the settings of a greeting and of a node; empty for none.
func differs(words []string, theirs, node session.Node, settings []Setting) string {
	received := make(map[string]string, len(words))
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		received[name] = value
	}
	for _, s := range settings {
		value, ok := received[s.Name]
		if !ok {
			value = s.Default
		}
		if value != s.Value {
			return fmt.Sprintf("%s is %q on node %d and %q on node %d: make it the same on every node", s.Name, value,
				theirs, s.Value, node)
		}
		delete(received, s.Name)
	}
	for name, value := range received {
		if !slices.ContainsFunc(settings, func(s Setting) bool { return s.Name == name }) {
			return fmt.Sprintf("%s is %q on node %d, and node %d does not know that setting: run the same release",
				name, value, theirs, node)
		}
	}
	return ""
}

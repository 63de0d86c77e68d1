package raftnet

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/session"
)

// Setting is one that is the same on every node of a cluster. Neither name nor values hold a space or an equals sign.
type Setting struct{ Name, Value, Default string }

// introduction is the text of a greeting: the cluster, and each setting that has not its default. A release that knows
// no settings takes the whole for the name of a cluster, which is another one than its own, and so refuses what it
// cannot do.
func introduction(cluster string, settings []Setting) string {
	words := []string{cluster}
	for _, s := range settings {
		if s.Value != s.Default {
			words = append(words, s.Name+"="+s.Value)
		}
	}
	return strings.Join(words, " ")
}

// differs returns why the settings of a greeting are not those of a node; empty when they are.
func differs(words []string, theirs, node session.Node, settings []Setting) string {
	told := make(map[string]string, len(words))
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		told[name] = value
	}
	for _, s := range settings {
		value, ok := told[s.Name]
		if !ok {
			value = s.Default
		}
		if value != s.Value {
			return fmt.Sprintf("%s is %q on node %d and %q on node %d: make it the same on every node", s.Name, value,
				theirs, s.Value, node)
		}
		delete(told, s.Name)
	}
	for name, value := range told {
		if !slices.ContainsFunc(settings, func(s Setting) bool { return s.Name == name }) {
			return fmt.Sprintf("%s is %q on node %d, and node %d does not know that setting: run the same release",
				name, value, theirs, node)
		}
	}
	return ""
}

package main

import (
	"fmt"
	"slices"
	"strings"

	"holdfast/session/words"
)

// statusText shows what the nodes say of themselves, for people: who serves, what each holds, and below the tables what
// a row has no room for. silent has the causes of the endpoints that gave no status, in few words. A terminal of 80
// columns shows a row on one line, unless the name of an endpoint is longer than 19 characters.
func statusText(views []statusView, silent []string, columnsOfTerminal int) string {
	serving, holding, notes := [][]string{}, [][]string{}, []string{}
	for i := range views {
		v := &views[i]
		if v.Error != "" {
			serving = append(serving, []string{v.Endpoint, "-", "-", "-", "-", "-", "no"})
			notes = append(notes, v.Endpoint+" gives no status: "+silent[i])
			continue
		}
		serving = append(serving, servingRow(v))
		holding = append(holding, holdingRow(v))
		notes = append(notes, v.notes()...)
	}
	text := columns([]string{"ENDPOINT", "NODE", "ROLE", "MODE", "LEADER", "APPLIED", "READY"}, serving)
	if len(holding) > 0 {
		text += "\n\n" + columns([]string{"NODE", "TERM", "COMMIT", "SESSIONS", "ATTACHED", "STATE", "TREE", "WATCHES"}, holding)
		notes = slices.Concat(builds(views), notes)
	}
	if frozen := frozenText(views); frozen != "" {
		notes = append(notes, frozen)
	}
	return text + "\n" + paragraphs(notes, columnsOfTerminal)
}

func servingRow(v *statusView) []string {
	leader := "-"
	if v.Leader != 0 {
		leader = number(v.Leader)
	}
	ready := yes(v.Ready)
	switch {
	case v.Drain != nil && v.Drain.Done:
		ready = "DRAINED"
	case v.Drain != nil:
		ready = "DRAINING"
	}
	return []string{
		v.Endpoint, number(v.Node), v.Role, words.OrDash(v.Mode), leader, number(v.AppliedIndex), ready,
	}
}

func holdingRow(v *statusView) []string {
	return []string{
		number(v.Node), number(v.Term), number(v.CommitIndex), share(v.SessionsGlobal, v.MaxSessions, number),
		number(v.SessionsAttached),
		share(v.StateBytes, v.MaxStateBytes, words.Bytes), treeText(v), number(v.Watches),
	}
}

// notes says what keeps a node from being ready, what it still has while it is drained, and of what it warns.
func (v *statusView) notes() (notes []string) {
	of := fmt.Sprintf("node %d", v.Node)
	if v.Drain != nil {
		if left := v.Drain.left(); left != "" {
			notes = append(notes, of+" is being drained: "+left)
		}
	} else if v.NotReadyBecause != "" {
		notes = append(notes, of+" is not ready: "+v.NotReadyBecause)
	}
	if v.Warning != "" {
		notes = append(notes, of+" warns: "+v.Warning)
	}
	return notes
}

// builds says which versions the nodes have, and which feature level the cluster has.
func builds(views []statusView) (lines []string) {
	nodes := map[string][]string{}
	var order []string
	for i := range views {
		v := &views[i]
		if v.Error != "" {
			continue
		}
		build := fmt.Sprintf("version %s, feature level %d", words.OrDash(v.Version), v.FeatureLevel)
		if nodes[build] == nil {
			order = append(order, build)
		}
		nodes[build] = append(nodes[build], number(v.Node))
	}
	for _, build := range order {
		if len(order) > 1 {
			build += ": node " + strings.Join(nodes[build], ", ")
		}
		lines = append(lines, build)
	}
	return lines
}

// paragraphs returns each text, escaped, after a line feed. Lines are wrapped between words for a terminal of that many
// columns; 0 wraps nothing.
func paragraphs(texts []string, columns int) string {
	var all strings.Builder
	for _, text := range texts {
		all.WriteString("\n" + wrapped(escaped(text), columns))
	}
	return all.String()
}

// wrapped breaks text between words so that no line has more columns, if its words let it; the lines after the first
// are indented.
func wrapped(text string, columns int) string {
	const indent = "  "
	if columns <= len(indent) {
		return text
	}
	var all strings.Builder
	width := 0
	for word := range strings.SplitSeq(text, " ") {
		n := len([]rune(word))
		switch {
		case width == 0:
		case width+1+n > columns:
			all.WriteString("\n" + indent)
			width = len(indent)
		default:
			all.WriteByte(' ')
			width++
		}
		all.WriteString(word)
		width += n
	}
	return all.String()
}

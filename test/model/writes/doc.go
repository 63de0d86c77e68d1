// Package writes is the write protocol, rules W3, W4 and X1 to X9 of docs/tree.md, as a state machine. Every rule about
// the effect of a write, and its client's answer, is a condition or an effect of an action.
//
// Package search tries the histories. As in package model, a search without a rule must break the rule's property, and
// a search with all rules must break nothing. README.md says what is modelled and how to run it, results.md has the
// results.
//
// The replicated state of the model is a plain one, so that rules can be left out. A test compares it with package
// writers, command by command.
package writes

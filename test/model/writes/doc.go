// Package writes is the write protocol, rules W3, W4 and X1 to X9 of docs/tree.md, as a state machine. Every
// rule that decides whether a write takes effect, and what its client is told, is a guard or an effect of an action.
//
// Package search tries the histories. As in package model, a search without a rule must break what the rule is there
// for, and a search with all rules must break nothing. README.md says what is modelled, to what extent, and what was
// found.
//
// The replicated state of the model is a plain one, so that rules can be left out of it. A test holds it against
// package writers, command by command.
package writes

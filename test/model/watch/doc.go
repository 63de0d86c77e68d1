// Package watch is the watch protocol, rules V2 to V6 of docs/tree.md with the necessary parts of G1 to G5, and the
// SDK's side, as a state machine. Each delivery to a client is a condition or an effect of an action.
//
// Package search tries the histories. As in package model, a search without a rule must break the rule's property, and
// a search with all rules must break nothing. README.md says what is modelled and how to run it, results.md has the
// results.
package watch

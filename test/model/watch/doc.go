// Package watch is the watch protocol, rules V2 to V6 of docs/tree.md with what they need of G1 to G5, and the SDK's
// side of it, as a state machine. What a client is told, and when, is a guard or an effect of an action.
//
// Package search tries the histories. As in package model, a search without a rule must break what the rule is there
// for, and a search with all rules must break nothing. README.md says what is modelled, to what extent, and what was
// found.
package watch

// Package model is docs/protocol.md as a state machine. Every rule about the life of sessions, the serving node and
// promises is a condition or an effect of an action, which cites the rule's number. The package has the states, the
// actions, the rules and the judges. Package search tries the histories: every order of the actions within a small
// scope, breadth first, and random orders in larger scopes.
//
// A search without a rule must break the invariant that docs/protocol.md names for the rule: this shows that the model
// can see the purpose of the rule. A search with all rules in force must break nothing: this is the statement of the
// model. README.md says what is modelled, how to run it and how to read a failure; results.md has the results.
//
// Time is counted in ticks, one for each interval between two heartbeats. All clocks run at one rate, so the allowances
// for different rates (timeout/100, timeout/200) are 0 here.
package model

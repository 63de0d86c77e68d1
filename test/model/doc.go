// Package model is docs/protocol.md as a machine: every rule that decides who lives, who serves and what is promised is
// a guard or an effect of an action here, and cites its number. Explore tries every order of the actions within a
// scope, breadth first, and so finds the shortest history that breaks an invariant; Walk tries random orders in scopes
// too wide for that.
//
// A rule can be left out (Without). That the invariant named in docs/protocol.md then breaks shows that the model looks
// at what the rule is for; that nothing breaks with all rules in force is what the model is there to say. README.md
// says what is modelled, how far, and what was found.
//
// Time is counted in ticks, one per interval between two heartbeats. All clocks run at one rate, so the allowances for
// rates that differ (timeout/100, timeout/200) are nothing here.
package model

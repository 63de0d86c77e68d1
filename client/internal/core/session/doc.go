// Package session decides about the sessions of a client: opens, resumes, touches, upgrades and closes, promises, and
// which event each session sees. The package does no I/O. [Effects] are the events for the application.
//
// A session is attached to one connection at a time. When the connection closes, the session stays, and its promise
// counts down. The manager resumes the session at the candidate or at the current connection of package conn.
//
// The interface [Tree] hides what sessions do with the tree.
package session

// Package deploy holds what is in deploy/ against the programs that read it: alert rules and the dashboard against
// PromQL and the metrics of a node, manifests against the types of Kubernetes, the unit against systemd. It is a module
// of its own, because what it needs is no part of Holdfast.
package deploy

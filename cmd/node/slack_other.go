//go:build !linux

package main

// slacken does something on Linux only.
func slacken() {}

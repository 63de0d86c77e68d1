// Package postgres shows fences that PostgreSQL keeps, and tests them at a server of its own. It is a module of its own:
// a program that uses package fence does not need the driver.
package postgres

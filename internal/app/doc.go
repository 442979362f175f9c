// Package app wires the parts into a process: Redis connections, breakers,
// ladders, workers, the dashboard and the metrics, with Start and Stop.
//
// [Connect] is enough for commands that look and submit; [New] adds what a
// worker runs. Clean-ups run in the reverse order of what was started.
package app

//go:generate go run ./internal/gendoc

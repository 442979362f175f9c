// Package batch has its scripts in lua/*.lua.
package batch

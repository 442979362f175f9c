// Package batch has its scripts in lua/*.lua and reads batch/lua/begin.lua.
package batch

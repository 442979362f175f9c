// Package hours is the wall clock of a time zone: when it shows a time of day,
// and the hours of the week in which something is open. All of it is a pure
// function of now.
//
// Where clocks change, a time of day that a day has not is the first moment after
// the gap, and one that it has twice is the first of the two.
package hours

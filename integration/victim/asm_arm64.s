#include "textflag.h"

// func arena() uintptr
TEXT ·arena(SB), NOSPLIT, $0-8
	MOVD	$·page(SB), R0
	MOVD	R0, ret+0(FP)
	RET

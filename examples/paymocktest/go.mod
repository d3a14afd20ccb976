module paymocktest

go 1.19

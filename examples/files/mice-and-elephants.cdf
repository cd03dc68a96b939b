# Many small transfers, few large ones: size in bytes, share of transfers that are no larger.
1000      0
5000      0.3
20000     0.6
100000    0.85
1000000   0.97
5000000   1

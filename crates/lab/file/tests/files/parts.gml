graph [
  node [ id 0 label "Paris" Latitude 48.85 Longitude 2.35 ]
  node [ id 1 label "Wien" Latitude 48.21 Longitude 16.37 ]
  node [ id 2 label "Praha" population 1 ]
  edge [ source 0 target 0 ]
  edge [ source 0 target 1 weight 3 ]
  edge [ source 1 target 2 weight 4 LinkLabel "10 Gbps" ]
]

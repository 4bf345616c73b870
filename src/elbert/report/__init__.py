"""Tables and figures. The only room that imports a plotting library, and only when a figure is drawn."""
